-- Locks, each named by key-values.

-- fence is the number of the last grant, session who has the lock, if anybody. until is the end
-- of the lease, or when the lock was given back.
create table headrace_lock (
    id         integer primary key,
    key_values text not null unique,
    fence      integer not null default 0,
    session    text,
    holder     text,
    since      integer not null default 0,
    until      integer not null default 0
);
create index headrace_lock_until on headrace_lock (until);

-- Who waits for a lock; ids are the order of the line. A place counts until a time.
create table headrace_lock_place (
    id      integer primary key autoincrement,
    lock    integer not null,
    session text not null unique,
    until   integer not null
);
create index headrace_lock_place_line on headrace_lock_place (lock, id);

-- No grant of a lock that was forgotten had a number above this. One row.
create table headrace_lock_floor (id integer primary key, fence integer not null);
insert into headrace_lock_floor (id, fence) values (0, 0);
