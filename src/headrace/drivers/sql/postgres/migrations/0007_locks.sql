-- Locks, each named by key-values.

-- fence is the number of the last grant, session who has the lock, if anybody. until is the end
-- of the lease, or when the lock was given back. Who takes a lock or gets a place in line has
-- locked the row alone; who guards it in a transaction holds it by a key share lock.
create table headrace.lock (
    id         bigint generated always as identity primary key,
    key_values text collate "C" not null unique,
    fence      bigint not null default 0,
    session    text,
    holder     text,
    since      bigint not null default 0,
    until      bigint not null default 0
) with (fillfactor = 50);
create index lock_until on headrace.lock (until);

-- Who waits for a lock; ids are the order of the line. A place counts until a time.
create table headrace.lock_place (
    id      bigint generated always as identity primary key,
    lock    bigint not null,
    session text not null unique,
    until   bigint not null
);
create index lock_place_line on headrace.lock_place (lock, id);

-- No grant of a lock that was forgotten had a number above this. One row.
create table headrace.lock_floor (id integer primary key, fence bigint not null);
insert into headrace.lock_floor (id, fence) values (0, 0);
