pragma journal_mode=wal;
begin immediate;

create table if not exists headrace_migration (version integer primary key, name text not null, applied_at text not null);

-- 10: schema
-- All tables, as a new file gets them. A change here needs a numbered file in migrations/ that makes
-- the same change in files that exist. The tables are those of PostgreSQL, without what serves
-- concurrent writers: SQLite has one at a time.

-- Topics and procs

-- One row per topic: its head. A row with next_seq = 0 is a name that a client mentioned; the topic
-- exists from its first record on.
create table headrace_topic (
    id        integer primary key,
    name      text not null unique,
    next_seq  integer not null default 0,
    first_seq integer not null default 0,
    last_ts   integer not null default 0,
    min_age   integer,
    max_age   integer
);

-- One row per commit and topic, split at about 128 KiB: count records as JSON lines.
-- base_seq is null until the row is numbered; times is for rows merged from several commits, stage
-- for rows that are written before they are published.
create table headrace_batch (
    id       text not null,
    topic    integer not null,
    base_seq integer,
    count    integer not null,
    ts       integer,
    times    text,
    body     text not null,
    headers  text,
    format   integer not null default 0,
    stage    text
);
create unique index headrace_batch_place on headrace_batch (topic, base_seq)
    where base_seq is not null;
create index headrace_batch_time on headrace_batch (topic, ts, base_seq)
    where base_seq is not null;
create index headrace_batch_unnumbered on headrace_batch (id) where base_seq is null;

-- Single records, for people and for SQL: select * from headrace_record where topic = 'x'.
create view headrace_record as
select t.name as topic,
       b.base_seq + line.key as seq,
       b.ts || '-' || (b.base_seq + line.key) as id,
       b.ts,
       strftime('%Y-%m-%dT%H:%M:%fZ', b.ts / 1000.0, 'unixepoch') as committed_at,
       line.value as body,
       json_extract('[' || replace(b.headers, char(10), ',') || ']', '$[' || line.key || ']')
           as headers
from headrace_batch b
join headrace_topic t on t.id = b.topic
join json_each('[' || replace(b.body, char(10), ',') || ']') line
where b.base_seq is not null
  and b.base_seq + line.key >= t.first_seq;

-- How long topics without an age of their own keep their records, once an age has been set.
create table headrace_retention (
    id       integer primary key check (id = 1),
    min_age  integer,
    max_age  integer,
    every    integer not null
);

create table headrace_proc (
    id                      integer primary key,
    name                    text not null unique,
    topic                   integer not null,
    origin                  text not null,
    cursor                  integer,
    created_at              integer not null,
    status                  text not null default 'active' check (status in ('active', 'disabled')),
    last_claimed_at         integer not null default 0,
    turn                    integer not null default 0,
    last_acked_at           integer not null default 0,
    last_claimed_range      text not null default '',
    last_acked_range        text not null default '',
    previous_claimed_range  text not null default '',
    reclaims                integer not null default 0,
    max_reclaims            integer not null,
    reclaim_timeout         integer,
    on_max_reclaims_reached text not null,
    last_error              text,
    skipped                 text not null default '[]',
    isolate_to              integer,
    last_acked_token        text,
    last_ack                text,
    ttl                     integer,
    expires_at              integer,
    -- Procs of a pipeline share its name and its definition, which is JSON.
    pipeline                text,
    definition              text
);
create index headrace_proc_topic on headrace_proc (topic);
create index headrace_proc_pipeline on headrace_proc (pipeline) where pipeline is not null;

-- The outstanding claim of a proc. Foreign keys are off on connections of other programs, so the
-- proc's own operations delete it.
create table headrace_proc_claim (
    proc      integer primary key,
    token     text not null,
    first_seq integer not null,
    last_seq  integer not null,
    deadline  integer
);

-- Sinks

-- One row per sink: the query that writes to it and its last batch. Staged rows are in files beside
-- the database: processes that stage need not wait for each other, nor open it.
create table headrace_sink (
    name       text primary key,
    query_id   text not null,
    last_batch integer not null,
    at         integer not null,
    outcome    text not null
);

-- Queues

-- One row per queue. settings is JSON and version grows with each change of it. A queue that was
-- dropped while its data was kept is not live. selections is how many selections there have been.
-- limits is the version of the limit rules that may concern the queue's items, 0 if there is none.
create table headrace_queue (
    id           integer primary key autoincrement,
    name         text not null unique,
    settings     text not null,
    version      integer not null,
    created_at   integer not null,
    is_live      integer not null,
    is_paused    integer not null,
    paused_by    text,
    held_until   integer,
    has_channels integer not null default 0,
    selections   integer not null default 0,
    limits       integer not null default 0
);

-- The settings of new queues, once they have been changed.
create table headrace_queue_default (
    id       integer primary key check (id = 1),
    settings text not null
);

-- Positions in line and turns of channels: each value is higher than all before.
create table headrace_turn (last integer not null);
insert into headrace_turn (last) values (0);

-- Live items only: 0 planned, 1 pending, 2 active. rank is the part of the order that comes before
-- the position: the negative priority, where the discipline asks for it. payload is JSON, or base64
-- where format is 1. channel is 0 for an item in no channel.
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
    payload        text not null,
    key_values     text
);
create index headrace_item_line on headrace_item (queue, rank, position) where state = 1;
create index headrace_item_planned on headrace_item (queue, next_execution, id) where state = 0;
create index headrace_item_leases on headrace_item (queue, lease_until, id) where state = 2;
create unique index headrace_item_subject on headrace_item (queue, subject) where subject is not null;
create index headrace_item_channel on headrace_item (channel, state, rank, position)
    where channel <> 0;

-- Finished items that are kept: 3 completed, -1 dead.
create table headrace_finished_item (
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
    title          text,
    key_values     text
);
create index headrace_finished_item_id on headrace_finished_item (queue, state, id);
create index headrace_finished_item_time on headrace_finished_item (queue, state, ended_at, id);
create index headrace_finished_item_subject on headrace_finished_item (queue, subject)
    where subject is not null;
create index headrace_finished_item_alike on headrace_finished_item (queue, fingerprint)
    where state = -1;

-- Claimed items that were deleted with their channel.
create table headrace_deleted_item (
    item  integer primary key,
    queue integer not null,
    token text not null,
    at    integer not null
);
create index headrace_deleted_item_time on headrace_deleted_item (queue, at);

-- Subjects that stay in use after their item is gone.
create table headrace_used_subject (
    queue   integer not null,
    subject text not null,
    at      integer not null,
    primary key (queue, subject)
);
create index headrace_used_subject_time on headrace_used_subject (queue, at);

-- Failures, as a time series.
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

-- Processes that have workers.
create table headrace_client (
    id         text primary key,
    name       text not null,
    host       text not null,
    pid        integer not null,
    started_at integer not null,
    seen_at    integer not null
);

-- Workers: their desired state, and what they do.
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

-- Channels: lines inside a queue, each named by key-values

-- key_values is the canonical text of a channel's key-values. A row stays for a while after its last
-- item is gone: a row without items is no channel. has_updateable: the channel has had an item that
-- newer ones replace.
create table headrace_channel (
    id             integer primary key autoincrement,
    queue          integer not null,
    key_values     text not null,
    created_at     integer not null,
    has_updateable integer not null default 0,
    lane           integer not null default 0
);
create unique index headrace_channel_name on headrace_channel (queue, key_values);

-- Channels that have items in line, in the order of their turns.
create table headrace_ready_channel (
    channel integer primary key,
    queue   integer not null,
    lane    integer not null default 0,
    turn    integer not null
);
create index headrace_ready_channel_turn on headrace_ready_channel (queue, lane, turn);

-- Queries that claims select by, each by its canonical text. since is the number of the queue's
-- selections with this one.
create table headrace_selection (
    id      integer primary key autoincrement,
    queue   integer not null,
    form    text not null,
    since   integer not null,
    seen_at integer not null
);
create unique index headrace_selection_form on headrace_selection (queue, form);

-- A lane is the channels that the same selections include, of the selections that there were when
-- their number was version: their ids, each between commas. A lane never changes, nor do the key-values
-- of a channel: so a channel that is in a lane belongs there. Channels in no lane (0), or in one that
-- is older than a selection, may be included in it or not.
create table headrace_lane (
    id         integer primary key autoincrement,
    queue      integer not null,
    version    integer not null,
    selections text not null
);
create unique index headrace_lane_selections on headrace_lane (queue, version, selections);

-- Channels that give no items before a time.
create table headrace_channel_delay (
    queue      integer not null,
    key_values text not null,
    until      integer not null,
    primary key (queue, key_values)
);
create index headrace_channel_delay_end on headrace_channel_delay (queue, until);

-- Limits

-- The version grows with each change of a rule. One row.
create table headrace_limit_version (
    id      integer primary key check (id = 1),
    version integer not null
);
insert into headrace_limit_version (id, version) values (1, 0);

-- queue is * for a rule about all queues; measure is running, enqueued, or rate/<ms>; key_values is the
-- canonical text of the pattern.
create table headrace_limit_rule (
    id         text primary key,
    queue      text not null,
    measure    text not null,
    key_values text not null,
    most       integer not null
) without rowid;
create unique index headrace_limit_rule_same on headrace_limit_rule (queue, measure, key_values);

create table headrace_limit_override (
    rule       text not null,
    id         text not null,
    key_values text not null,
    most       integer not null,
    primary key (rule, id)
) without rowid;
create unique index headrace_limit_override_same on headrace_limit_override (rule, key_values);

-- Counters of limits. Every transaction that claims or finishes counted items changes them with it.
-- The name is queue|measure|key_values, by which a counter is found. marks is the times of events, for
-- a rate; idle_at is when the last of them stops counting. is_awaited: a claim found no free slot, see
-- limit_waiter.
create table headrace_limit_counter (
    id         integer primary key autoincrement,
    name       text not null,
    queue      text not null,
    measure    text not null,
    used       integer not null default 0,
    marks      text,
    idle_at    integer,
    is_awaited integer not null default 0
);
create unique index headrace_limit_counter_name on headrace_limit_counter (name);
create index headrace_limit_counter_measure on headrace_limit_counter (queue, measure);

-- Queues that wait for free slots of a counter.
create table headrace_limit_waiter (
    counter integer not null,
    queue   integer not null,
    primary key (counter, queue)
) without rowid;

-- Of a queue's channels, those that a counter (0 for none) holds back at a limit (most) are parked: they
-- take their turns in the lane whose number is the negative id.
create table headrace_parking_lane (
    id      integer primary key autoincrement,
    queue   integer not null,
    counter integer not null,
    most    integer not null
);
create unique index headrace_parking_lane_counter on headrace_parking_lane (queue, counter, most);

-- Counters of user code, which count under limit rules as running items do. A session holds its count
-- until its lease ends. A count that was set has no lease, and = with the key-values in place of a
-- session. A transaction that changes a row changes the counters of limits with it.
create table headrace_counter (
    session    text primary key,
    key_values text not null,
    count      integer not null,
    until      integer,
    holder     text,
    since      integer not null
);
create index headrace_counter_end on headrace_counter (until) where until is not null;
create index headrace_counter_name on headrace_counter (key_values);

-- Locks, each named by key-values

-- fence is the number of the last grant, session the holder of the lock, if there is one. until is the
-- end of the lease, or when the lock was released.
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

-- Sessions that wait for a lock, in the order of their ids, each until a time.
create table headrace_lock_waiter (
    id      integer primary key autoincrement,
    lock    integer not null,
    session text not null unique,
    until   integer not null
);
create index headrace_lock_waiter_line on headrace_lock_waiter (lock, id);

-- No grant of a lock whose row was deleted had a number above this. One row.
create table headrace_lock_floor (id integer primary key, fence integer not null);
insert into headrace_lock_floor (id, fence) values (0, 0);

-- Shared by all of these

-- Idempotency keys: a key in a scope, until a time, with its outcome.
create table headrace_idempotency_key (
    scope   text not null,
    key     text not null,
    until   integer not null,
    digest  text,
    outcome text,
    primary key (scope, key)
);
create index headrace_idempotency_key_until on headrace_idempotency_key (until);

-- Which process does which maintenance task, until when: one process at a time does it.
create table headrace_lease (
    task   text primary key,
    holder text not null,
    until  integer not null
);
insert into headrace_migration values (10, 'schema', datetime('now'));

commit;
