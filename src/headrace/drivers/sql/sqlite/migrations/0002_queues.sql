-- Queues: items that wait, what is kept of those that ended, and who works on them.

-- One row per queue. settings is JSON and version grows with each change of it. A queue that was
-- dropped while its data was kept is not live.
create table headrace_queue (
    id         integer primary key autoincrement,
    name       text not null unique,
    settings   text not null,
    version    integer not null,
    created_at integer not null,
    is_live    integer not null,
    is_paused  integer not null,
    paused_by  text,
    held_until integer
);

-- What new queues get, once somebody has changed it.
create table headrace_queue_default (
    id       integer primary key check (id = 1),
    settings text not null
);

-- Places in line: each that is given out is higher than all before.
create table headrace_turn (last integer not null);
insert into headrace_turn (last) values (0);

-- Live items only: 0 planned, 1 pending, 2 active. rank is the part of the order that comes before
-- the place in line: the negative priority, where the discipline asks for it. payload is JSON, or base64
-- where format is 1.
create table headrace_item (
    id             integer primary key autoincrement,
    queue          integer not null,
    state          integer not null,
    rank           integer not null default 0,
    position       integer,
    priority       integer not null default 0,
    channel        integer not null default 0,
    next_execution integer not null,
    waiting_since  integer not null,
    created_at     integer not null,
    attempts       integer not null default 0,
    crashes        integer not null default 0,
    iterations     integer not null default 0,
    last_iteration integer,
    format         integer not null default 0,
    subject        text,
    headers        text,
    overrides      text,
    token          text,
    lease_until    integer,
    claimed_at     integer,
    worker         text,
    error          text,
    successor      text,
    payload        text not null
);
create index headrace_item_line on headrace_item (queue, rank, position) where state = 1;
create index headrace_item_planned on headrace_item (queue, next_execution, id) where state = 0;
create index headrace_item_leases on headrace_item (queue, lease_until, id) where state = 2;
create unique index headrace_item_subject on headrace_item (queue, subject) where subject is not null;

-- Items that have ended and are kept: 3 completed, -1 dead.
create table headrace_ended (
    id             integer primary key,
    queue          integer not null,
    state          integer not null,
    position       integer,
    priority       integer not null,
    next_execution integer not null,
    waiting_since  integer not null,
    created_at     integer not null,
    attempts       integer not null,
    crashes        integer not null,
    iterations     integer not null,
    last_iteration integer,
    format         integer not null,
    subject        text,
    headers        text,
    overrides      text,
    claimed_at     integer,
    worker         text,
    error          text,
    payload        text not null,
    ended_at       integer not null,
    cause          text not null,
    fingerprint    text,
    title          text
);
create index headrace_ended_id on headrace_ended (queue, state, id);
create index headrace_ended_time on headrace_ended (queue, state, ended_at, id);
create index headrace_ended_subject on headrace_ended (queue, subject) where subject is not null;
create index headrace_ended_alike on headrace_ended (queue, fingerprint) where state = -1;

-- Subjects that count as taken after their item is gone.
create table headrace_used (
    queue   integer not null,
    subject text not null,
    at      integer not null,
    primary key (queue, subject)
);
create index headrace_used_time on headrace_used (queue, at);

-- What went wrong, as a time series.
create table headrace_error (
    id      integer primary key autoincrement,
    queue   integer not null,
    at      integer not null,
    item    integer not null,
    subject text,
    attempt integer not null,
    worker  text,
    failure text not null
);
create index headrace_error_id on headrace_error (queue, id);
create index headrace_error_time on headrace_error (queue, at, id);

-- A queue's counts at some moments.
create table headrace_sample (
    queue  integer not null,
    at     integer not null,
    counts text not null,
    primary key (queue, at)
);

-- A queue's running counts.
create table headrace_tally (
    queue       integer not null primary key,
    planned     integer not null default 0,
    pending     integer not null default 0,
    active      integer not null default 0,
    completed   integer not null default 0,
    dead        integer not null default 0,
    entered     integer not null default 0,
    picked      integer not null default 0,
    processed   integer not null default 0,
    rescheduled integer not null default 0,
    rejected    integer not null default 0,
    dropped     integer not null default 0,
    orphaned    integer not null default 0,
    errors      integer not null default 0
);

-- Processes that have workers, and the workers: what they shall do, and what they do.
create table headrace_client (
    id         text primary key,
    name       text not null,
    host       text not null,
    pid        integer not null,
    started_at integer not null,
    seen_at    integer not null
);
create table headrace_worker (
    id         text primary key,
    client     text not null,
    queue      text not null,
    desired    text not null,
    current    text not null,
    version    integer not null,
    started_at integer not null,
    seen_at    integer not null,
    busy       integer not null,
    done       integer not null,
    failed     integer not null,
    rate       real not null,
    error      text
);
create index headrace_worker_client on headrace_worker (client);
create index headrace_worker_queue on headrace_worker (queue);
