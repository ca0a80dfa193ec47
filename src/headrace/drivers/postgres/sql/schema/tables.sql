-- All tables, as a new schema gets them; functions/ and triggers.sql follow. A change here needs a
-- numbered file in migrations/ that makes the same change in schemas that exist.

-- Topics and procs

-- One row per topic: its head. The row is locked while records are numbered, so that numbers are
-- dense and become visible in their own order. A row with next_seq = 0 is a name that a client
-- mentioned; the topic exists from its first record on.
create table headrace.topic (
    id        integer generated always as identity primary key,
    name      text collate "C" not null unique,
    next_seq  bigint not null default 0,
    first_seq bigint not null default 0,
    last_ts   bigint not null default 0,
    min_age   bigint,
    max_age   bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row per commit and topic, split at about 128 KiB: count records as JSON lines.
-- base_seq is null until the row is numbered; times is for rows merged from several commits, stage
-- for rows that are written before they are published. Staged rows have no number, and ts is the
-- time of staging: publishing numbers them, so that nothing is written twice.
create table headrace.batch (
    id       uuid not null,
    topic    integer not null,
    base_seq bigint,
    count    integer not null,
    ts       bigint,
    times    text,
    body     text not null,
    headers  text,
    format   smallint not null default 0,
    stage    text
);
-- Clients make the ids: a commit that is repeated, because its answer was lost, collides with itself.
create unique index batch_id on headrace.batch (id);
create unique index batch_place on headrace.batch (topic, base_seq) where base_seq is not null;
create index batch_time on headrace.batch (topic, ts, base_seq) where base_seq is not null;
create index batch_unnumbered on headrace.batch (id) where base_seq is null and stage is null;
create index batch_stage on headrace.batch (stage, id) where stage is not null;

-- Single records, for people and for SQL: select * from headrace.record where topic = 'x'.
create view headrace.record as
select t.name as topic,
       b.base_seq + line.place - 1 as seq,
       b.ts || '-' || (b.base_seq + line.place - 1) as id,
       b.ts,
       to_timestamp(b.ts / 1000.0) as committed_at,
       line.text::json as body,
       nullif(head.text, 'null')::json as headers
from headrace.batch b
join headrace.topic t on t.id = b.topic
cross join lateral string_to_table(b.body, E'\n') with ordinality line (text, place)
left join lateral string_to_table(b.headers, E'\n') with ordinality head (text, place)
       on head.place = line.place
where b.base_seq is not null
  and b.base_seq + line.place - 1 >= t.first_seq;

-- How long topics without an age of their own keep their records, once an age has been set.
create table headrace.retention (
    id       integer primary key check (id = 1),
    min_age  bigint,
    max_age  bigint,
    every    bigint not null
);

create table headrace.proc (
    id                      integer generated always as identity primary key,
    name                    text collate "C" not null unique,
    topic                   integer not null references headrace.topic,
    origin                  text not null,
    cursor                  bigint,
    created_at              bigint not null,
    status                  text not null default 'active' check (status in ('active', 'disabled')),
    last_claimed_at         bigint not null default 0,
    turn                    bigint not null default 0,
    last_acked_at           bigint not null default 0,
    last_claimed_range      text not null default '',
    last_acked_range        text not null default '',
    previous_claimed_range  text not null default '',
    attempts                integer not null default 0,
    max_attempts            integer not null,
    lease                   bigint,
    on_exhausted            text not null,
    last_error              text,
    skipped                 text not null default '[]',
    isolate_to              bigint,
    last_acked_token        text,
    last_ack                text,
    ttl                     bigint,
    expires_at              bigint,
    -- Procs of a pipeline share its name and its definition, which is JSON.
    pipeline                text collate "C",
    definition              text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index proc_topic on headrace.proc (topic);
create index proc_pipeline on headrace.proc (pipeline) where pipeline is not null;

-- The outstanding claim of a proc.
create table headrace.proc_claim (
    proc      integer primary key references headrace.proc on delete cascade,
    token     text not null,
    first_seq bigint not null,
    last_seq  bigint not null,
    deadline  bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Sinks

-- One row per sink: the query that writes to it and its last batch. Locked while a batch is
-- published, so that each batch is published once.
create table headrace.sink (
    name       text collate "C" primary key,
    query_id   text not null,
    last_batch bigint not null,
    at         bigint not null,
    outcome    text not null
);

-- Staged documents for queues: count documents as JSON lines.
create table headrace.staged (
    id        uuid primary key,
    stage     text not null,
    queue     text not null,
    count     integer not null,
    documents text not null,
    ts        bigint not null
);
create index staged_stage on headrace.staged (stage, id);

-- Queues

-- One row per queue. settings is JSON and version grows with each change of it. A queue that was
-- dropped while its data was kept is not live. selections is how many selections there have been.
-- frozen_until: the queue is frozen for an update of its settings. limit_version is the version of the
-- limit rules that may concern the queue's items, 0 if there is none.
-- The last four columns are for items in no channel what they are in headrace.channel for others.
create table headrace.queue (
    id            integer generated always as identity primary key,
    name          text collate "C" not null unique,
    settings      text not null,
    version       integer not null,
    created_at    bigint not null,
    is_live       boolean not null,
    is_paused     boolean not null,
    paused_by     text,
    frozen_until  bigint,
    has_channels  boolean not null default false,
    selections    integer not null default 0,
    limit_version integer not null default 0,
    bound_version integer not null default 0,
    counted       integer[] not null default '{}',
    checked       integer[] not null default '{}',
    max_used      bigint[] not null default '{}'
);

-- The settings of new queues, once they have been changed.
create table headrace.queue_default (
    id       integer primary key check (id = 1),
    settings text not null
);

-- Positions in line and turns of channels: each value is higher than all before.
create sequence headrace.turn;

-- Live items only: 0 planned, 1 pending, 2 active. rank is the part of the order that comes before
-- the position: the negative priority, where the discipline asks for it. payload is JSON, or base64
-- where format is 1. channel is 0 for an item in no channel.
create table headrace.item (
    id             bigint generated by default as identity primary key,
    queue          integer not null,
    state          smallint not null,
    rank           integer not null default 0,
    position       bigint,
    priority       integer not null default 0,
    channel        integer not null default 0,
    next_execution bigint not null,
    waiting_since  bigint not null,
    created_at     bigint not null,
    attempts       integer not null default 0,
    crashes        integer not null default 0,
    iterations     integer not null default 0,
    last_iteration bigint,
    format         smallint not null default 0,
    subject        text,
    headers        text,
    overrides      text,
    token          text,
    lease_until    bigint,
    claimed_at     bigint,
    worker         text,
    error          text,
    successor      text,
    payload        text not null,
    key_values     text collate "C"
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
       autovacuum_vacuum_cost_delay = 0);
create index item_line on headrace.item (queue, rank, position) where state = 1;
create index item_planned on headrace.item (queue, next_execution, id) where state = 0;
create index item_leases on headrace.item (queue, lease_until, id) where state = 2;
create unique index item_subject on headrace.item (queue, subject) where subject is not null;
create index item_channel on headrace.item (channel, state, rank, position) where channel <> 0;

-- Finished items that are kept: 3 completed, -1 dead.
create table headrace.finished_item (
    id             bigint primary key,
    queue          integer not null,
    state          smallint not null,
    position       bigint,
    priority       integer not null,
    next_execution bigint not null,
    waiting_since  bigint not null,
    created_at     bigint not null,
    attempts       integer not null,
    crashes        integer not null,
    iterations     integer not null,
    last_iteration bigint,
    format         smallint not null,
    subject        text,
    headers        text,
    overrides      text,
    claimed_at     bigint,
    worker         text,
    error          text,
    payload        text not null,
    ended_at       bigint not null,
    cause          text not null,
    fingerprint    text,
    title          text,
    key_values     text collate "C"
);
create index finished_item_id on headrace.finished_item (queue, state, id);
create index finished_item_time on headrace.finished_item (queue, state, ended_at, id);
create index finished_item_subject on headrace.finished_item (queue, subject)
    where subject is not null;
create index finished_item_alike on headrace.finished_item (queue, fingerprint) where state = -1;

-- Claimed items that were deleted with their channel.
create table headrace.deleted_item (
    item  bigint primary key,
    queue integer not null,
    token text not null,
    at    bigint not null
);
create index deleted_item_time on headrace.deleted_item (queue, at);

-- Subjects that stay in use after their item is gone.
create table headrace.used_subject (
    queue   integer not null,
    subject text not null,
    at      bigint not null,
    primary key (queue, subject)
);
create index used_subject_time on headrace.used_subject (queue, at);

-- Failures, as a time series.
create table headrace.error (
    id      bigint generated by default as identity primary key,
    queue   integer not null,
    at      bigint not null,
    item    bigint not null,
    subject text,
    attempt integer not null,
    worker  text,
    failure text not null
);
create index error_id on headrace.error (queue, id);
create index error_time on headrace.error (queue, at, id);

-- A queue's counts at some moments.
create table headrace.sample (
    queue  integer not null,
    at     bigint not null,
    counts text not null,
    primary key (queue, at)
);

-- Changes of a queue's counts, one row for each transaction that made some, so that transactions do
-- not wait for each other. Maintenance folds many rows into one. A row with an id is also a receipt: a
-- client that repeats a statement because its answer was lost finds it, and ids says what was done.
-- That is ids divided by U+001E, each with its subject behind a U+001F if it is new and has one; or
-- the first and the last of consecutive ids, divided by U+001D.
create table headrace.tally (
    queue       integer not null,
    id          uuid,
    at          bigint,
    ids         text,
    planned     bigint not null default 0,
    pending     bigint not null default 0,
    active      bigint not null default 0,
    completed   bigint not null default 0,
    dead        bigint not null default 0,
    entered     bigint not null default 0,
    picked      bigint not null default 0,
    processed   bigint not null default 0,
    rescheduled bigint not null default 0,
    rejected    bigint not null default 0,
    dropped     bigint not null default 0,
    orphaned    bigint not null default 0,
    errors      bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index tally_queue on headrace.tally (queue);
create unique index tally_id on headrace.tally (id) where id is not null;

-- Processes that have workers.
create table headrace.client (
    id         text primary key,
    name       text not null,
    host       text not null,
    pid        integer not null,
    started_at bigint not null,
    seen_at    bigint not null
);

-- Workers: their desired state, and what they do.
create table headrace.worker (
    id         text primary key,
    client     text not null,
    queue      text not null,
    desired    text not null,
    current    text not null,
    version    integer not null,
    started_at bigint not null,
    seen_at    bigint not null,
    busy       integer not null,
    done       bigint not null,
    failed     bigint not null,
    rate       double precision not null,
    error      text
);
create index worker_client on headrace.worker (client);
create index worker_queue on headrace.worker (queue);

-- Channels: lines inside a queue, each named by key-values

-- key_values is the canonical text of a channel's key-values. A row stays for a while after its last
-- item is gone: a row without items is no channel. A transaction that puts an item in line locks the
-- row FOR KEY SHARE; one that retires the channel, or deletes it, locks the row exclusively and checks
-- again. No claim changes it. has_updateable: the channel has had an item that newer ones replace.
-- The last four columns bind the channel to its counters: they say what the limit rules of bound_version
-- mean for the channel's items. counted are the counters that they count in, checked those that must
-- have free slots, and max_used the limit of each of these. A limit of 0 checks no counter, which is 0
-- here. The first client that needs them computes them; while bound_version is below the queue's
-- limit_version, they are out of date.
create table headrace.channel (
    id             integer generated always as identity primary key,
    queue          integer not null,
    key_values     text collate "C" not null,
    created_at     bigint not null,
    has_updateable boolean not null default false,
    lane           integer not null default 0,
    bound_version  integer not null default 0,
    counted        integer[] not null default '{}',
    checked        integer[] not null default '{}',
    max_used       bigint[] not null default '{}'
);
create unique index channel_name on headrace.channel (queue, key_values);

-- Channels that have items in line, in the order of their turns. last_rank and last_position are the
-- place of the last item that was claimed, if it is known: in front of it there are mostly no items,
-- or dead rows that cannot be removed yet. last_look is when a claim last read the whole line.
create table headrace.ready_channel (
    channel       integer primary key,
    queue         integer not null,
    lane          integer not null default 0,
    turn          bigint not null,
    last_rank     integer,
    last_position bigint,
    last_look     bigint
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
       autovacuum_vacuum_cost_delay = 0);
create index ready_channel_turn on headrace.ready_channel (queue, lane, turn);

-- Queries that claims select by, each by its canonical text. since is the number of the queue's
-- selections with this one.
create table headrace.selection (
    id      integer generated always as identity primary key,
    queue   integer not null,
    form    text collate "C" not null,
    since   integer not null,
    seen_at bigint not null
);
create unique index selection_form on headrace.selection (queue, form);

-- A lane is the channels that the same selections include, of the selections that there were when
-- their number was version: their ids, each between commas. A lane never changes, nor do the key-values
-- of a channel: so a channel that is in a lane belongs there. Channels in no lane (0), or in one that
-- is older than a selection, may be included in it or not.
create table headrace.lane (
    id         integer generated always as identity primary key,
    queue      integer not null,
    version    integer not null,
    selections text collate "C" not null
);
create unique index lane_selections on headrace.lane (queue, version, selections);

-- Channels that give no items before a time.
create table headrace.channel_delay (
    queue      integer not null,
    key_values text collate "C" not null,
    until      bigint not null,
    primary key (queue, key_values)
);
create index channel_delay_end on headrace.channel_delay (queue, until);

-- Limits

-- The version grows with each change of a rule. One row.
create table headrace.limit_version (
    id      integer primary key check (id = 1),
    version integer not null
);
insert into headrace.limit_version (id, version) values (1, 0);

-- queue is * for a rule about all queues; measure is running, enqueued, or rate/<ms>; key_values is the
-- canonical text of the pattern.
create table headrace.limit_rule (
    id         text collate "C" primary key,
    queue      text collate "C" not null,
    measure    text not null,
    key_values text collate "C" not null,
    max_used   bigint not null
);
create unique index limit_rule_same on headrace.limit_rule (queue, measure, key_values);
create table headrace.limit_override (
    rule       text collate "C" not null,
    id         text collate "C" not null,
    key_values text collate "C" not null,
    max_used   bigint not null,
    primary key (rule, id)
);
create unique index limit_override_same on headrace.limit_override (rule, key_values);

-- Counters of limits. Every transaction that claims or finishes counted items changes them with it, in
-- the order of their ids. A counter is found by its name: queue, measure and key_values, with newlines
-- between them, since no queue or measure contains one (CounterKey). marks is the times of events, for a
-- rate; idle_at is when the last of them stops counting. is_awaited: a claim found no free slot, see
-- limit_waiter. No column that changes has an index, and pages have free space, so that an update stays
-- in its page.
create table headrace.limit_counter (
    id         integer generated always as identity primary key,
    name       text collate "C" not null,
    queue      text collate "C" not null,
    measure    text not null,
    used       bigint not null default 0,
    marks      text,
    idle_at    bigint,
    is_awaited boolean not null default false
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
       autovacuum_vacuum_cost_delay = 0);
create unique index limit_counter_name on headrace.limit_counter (name);
create index limit_counter_measure on headrace.limit_counter (queue, measure);

-- Queues that wait for free slots of a counter.
create table headrace.limit_waiter (
    counter integer not null,
    queue   integer not null,
    primary key (counter, queue)
);

-- Counters of user code, which count under limit rules as running items do. A session holds its count
-- until its lease ends. A count that was set has no lease, and = with the key-values in place of a
-- session. A transaction that changes a row changes the counters of limits with it.
create table headrace.counter (
    session    text primary key,
    key_values text collate "C" not null,
    count      bigint not null,
    until      bigint,
    holder     text,
    since      bigint not null
);
create index counter_end on headrace.counter (until) where until is not null;
create index counter_name on headrace.counter (key_values);

-- Locks, each named by key-values

-- fence is the number of the last grant, session the holder of the lock, if there is one. until is the
-- end of the lease, or when the lock was released. A transaction that acquires a lock or adds a waiter
-- locks the row exclusively; one that guards it locks it FOR KEY SHARE.
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

-- Sessions that wait for a lock, in the order of their ids, each until a time.
create table headrace.lock_waiter (
    id      bigint generated always as identity primary key,
    lock    bigint not null,
    session text not null unique,
    until   bigint not null
);
create index lock_waiter_line on headrace.lock_waiter (lock, id);

-- No grant of a lock whose row was deleted had a number above this. One row.
create table headrace.lock_floor (id integer primary key, fence bigint not null);
insert into headrace.lock_floor (id, fence) values (0, 0);

-- Access to a node

-- Access tokens of a node's clients. scopes is a JSON list, secrets the valid secrets as a JSON list of
-- objects with a number, the SHA-256 and the time of creation. A transaction that changes a token locks
-- its row.
create table headrace.token (
    id           text collate "C" primary key,
    name         text not null,
    scopes       text not null,
    secrets      text not null,
    last_secret  integer not null,
    created_at   bigint not null,
    expires_at   bigint,
    last_used_at bigint,
    revoked_at   bigint
);

-- Actions at due times. definition is JSON: what the schedule does, and when. due is the next due time,
-- fire_at when it is fired, null while the schedule is paused; every due time is later than passed.
-- skipped is JSON: how many due times were skipped, by reason. zone_data is the version of the time zone
-- data that due was computed by, null where no time zone matters. A transaction that fires or changes a
-- schedule locks its row.
create table headrace.schedule (
    name       text collate "C" primary key,
    definition text not null,
    state      text not null,
    anchor     bigint not null,
    passed     bigint not null,
    due        bigint,
    fire_at    bigint,
    prev_due   bigint,
    fired_at   bigint,
    fires      bigint not null,
    skipped    text not null,
    attempts   integer not null,
    error      text,
    zone_data  text,
    version    integer not null,
    created_at bigint not null
);
create index schedule_fire on headrace.schedule (fire_at, name) where fire_at is not null;

-- Shared by all of these

-- Idempotency keys: a key in a scope, until a time, with its outcome.
create table headrace.idempotency_key (
    scope   text not null,
    key     text not null,
    until   bigint not null,
    digest  text,
    outcome text,
    primary key (scope, key)
);
create index idempotency_key_until on headrace.idempotency_key (until);

-- Which process does which maintenance task, until when: one process at a time does it.
create table headrace.lease (
    task   text primary key,
    holder text not null,
    until  bigint not null
);

-- Processes that wait for a notification. A commit notifies only if there are any: NOTIFY makes all
-- committing transactions of the database wait for each other.
create unlogged table headrace.waiter (
    id    uuid primary key,
    until bigint not null
);

-- Proof that a transaction was committed whose answer was lost. Each connection has a row, with the
-- number of its last transaction that was committed. The server's own transaction id proves nothing
-- after a crash: it may have been given to another transaction. Only the key has an index, and pages
-- have free space, so that an update stays in its page.
create table headrace.commit_marker (
    connection  uuid primary key,
    transaction bigint not null,
    at          bigint not null
) with (fillfactor = 50);

-- Which functions are installed, by name, parameters and result (signatures): the digest of their files,
-- the digest of what the server stored, and the release of Headrace that they came with. One row. See
-- drivers/postgres/functions.py.
create table headrace.function_set (
    id         integer primary key check (id = 1),
    digest     text not null,
    installed  text not null,
    release    text not null,
    signatures text[] not null,
    applied_at timestamptz not null default now()
);

-- lz4 is several times faster than the default, but a server may be built without it.
do $$
begin
    alter table headrace.batch alter column body set compression lz4;
    alter table headrace.item alter column payload set compression lz4;
    alter table headrace.finished_item alter column payload set compression lz4;
exception when feature_not_supported or invalid_parameter_value then
    null;
end
$$;
