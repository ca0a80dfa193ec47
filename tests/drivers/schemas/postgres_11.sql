begin;

select pg_advisory_xact_lock(hashtext('headrace.migrate'), hashtext('headrace'));
create schema if not exists "headrace";
create table if not exists "headrace".migration (version integer primary key, name text not null, applied_at timestamptz not null default now());

-- 11: schema
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
-- limits is the version of the limit rules that may concern the queue's items, 0 if there is none.
-- The last four columns are for items in no channel what they are in headrace.channel for others.
create table headrace.queue (
    id           integer generated always as identity primary key,
    name         text collate "C" not null unique,
    settings     text not null,
    version      integer not null,
    created_at   bigint not null,
    is_live      boolean not null,
    is_paused    boolean not null,
    paused_by    text,
    held_until   bigint,
    has_channels boolean not null default false,
    selections   integer not null default 0,
    limits       integer not null default 0,
    rules        integer not null default 0,
    counted      integer[] not null default '{}',
    checked      integer[] not null default '{}',
    most         bigint[] not null default '{}'
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
-- The last four columns say what the limit rules of version "rules" say about the channel's items: the
-- counters that they count in (counted), those that must have free slots (checked), and the limit of
-- each (most). A limit of 0 checks no counter, which is 0 here. The first client that needs it works it
-- out; while the version is below that of the queue's limits, it is not known.
create table headrace.channel (
    id             integer generated always as identity primary key,
    queue          integer not null,
    key_values     text collate "C" not null,
    created_at     bigint not null,
    has_updateable boolean not null default false,
    lane           integer not null default 0,
    rules          integer not null default 0,
    counted        integer[] not null default '{}',
    checked        integer[] not null default '{}',
    most           bigint[] not null default '{}'
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
    most       bigint not null
);
create unique index limit_rule_same on headrace.limit_rule (queue, measure, key_values);
create table headrace.limit_override (
    rule       text collate "C" not null,
    id         text collate "C" not null,
    key_values text collate "C" not null,
    most       bigint not null,
    primary key (rule, id)
);
create unique index limit_override_same on headrace.limit_override (rule, key_values);

-- Counters of limits. Every transaction that claims or finishes counted items changes them with it, in
-- the order of their ids. The name is queue|measure|key_values, by which a counter is found. marks is
-- the times of events, for a rate; idle_at is when the last of them stops counting. is_awaited: a claim
-- found no free slot, see limit_waiter. No column that changes has an index, and pages have free space,
-- so that an update stays in its page.
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

-- Register a queue as a waiter on counters, which are locked.
create function headrace.add_limit_waiters(queue_id integer, counters integer[])
returns void language plpgsql as $$
begin
    insert into headrace.limit_waiter (counter, queue)
    select distinct t.id, queue_id from unnest(counters) as t (id) where t.id <> 0
    on conflict (counter, queue) do nothing;
    update headrace.limit_counter set is_awaited = true where id = any(counters) and not is_awaited;
end
$$;

-- A whole commit in one statement: number a row and store it at the end of its topic. Returns no row
-- if there is no such topic. The clock is read after the head is locked. A row that continues the one
-- before it in the same commit has the same time.
create function headrace.append(
    topic_name text, row_id uuid, row_count integer, row_body text, row_headers text,
    continues boolean, moment bigint, channel text
) returns table (base_seq bigint, ts bigint, now bigint) language plpgsql as $$
declare
    nothing text;
    head record;
begin
    nothing := headrace.require_flush();
    update headrace.topic t
    set next_seq = t.next_seq + row_count,
        last_ts = case when continues then t.last_ts
                       else greatest(t.last_ts, coalesce(moment, headrace.clock())) end
    where t.name = topic_name
    returning t.id, t.next_seq - row_count as base_seq, t.last_ts into head;
    if not found then
        return;
    end if;
    insert into headrace.batch (id, topic, base_seq, count, ts, body, headers)
    values (row_id, head.id, head.base_seq, row_count, head.last_ts, row_body, row_headers);
    perform pg_notify(channel, topic_name)
    where channel is not null
      and exists (select from headrace.waiter where until > headrace.clock());
    return query select head.base_seq, head.last_ts, coalesce(moment, headrace.clock());
end
$$;

-- The first part of a claim on a queue with channels: lock the queue, check that it is open and has the
-- settings, and move planned items that are due to the line. word is null if there is no such queue, and
-- otherwise as in headrace.claim_in_turn. Leases are checked under limit rules, and where the caller
-- asks for it.
create function headrace.begin_claim(
    queue_id integer, queue_version integer, sign integer, selection integer, rules integer,
    checks_leases boolean, moment bigint,
    out word text, out clock bigint, out promoted bigint
) language plpgsql as $$
declare
    nothing text;
    target headrace.queue;
    is_due boolean;
    has_lapsed boolean;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    clock := coalesce(moment, headrace.clock());
    promoted := 0;
    if target.is_paused or target.version <> queue_version or target.held_until > clock then
        word := 'other';
    elsif selection is not null and headrace.has_unsorted(queue_id, selection) then
        word := 'unsorted';
    elsif rules > 0 and headrace.has_expired_leases(queue_id, clock) then
        word := 'short';
    else
        -- The client flushes a counted claim before it uses the items.
        nothing := set_config('synchronous_commit', 'off', true);
        select exists (select from headrace.item i
                       where i.queue = queue_id and i.state = 0 and i.next_execution <= clock),
               rules = 0 and checks_leases and exists (
                   select from headrace.item i
                   where i.queue = queue_id and i.state = 2 and i.lease_until <= clock)
        into is_due, has_lapsed;
        if is_due then
            promoted := headrace.promote_items(queue_id, sign, clock);
        end if;
        word := case when has_lapsed then 'short' else 'claimed' end;
    end if;
end
$$;

-- Store what the rules of a version say about some channels, 0 for the queue itself. bounds lists the
-- names of the counters that items count in and of those that must have free slots; homes says which
-- entry belongs to which channel. False if these are no longer the rules of the queue.
create function headrace.bind_channels(
    queue_id integer, rule_version integer, channels integer[], homes integer[], bounds json
) returns boolean language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    perform pg_advisory_xact_lock_shared(1214603634, queue_id);
    perform from headrace.queue q where q.id = queue_id and q.is_live and q.limits <= rule_version;
    if not found then
        return false;
    end if;
    -- In the order that all transactions use, and before the counters.
    perform from headrace.channel c where c.id = any(channels)
    order by c.key_values for no key update;
    insert into headrace.limit_counter (name, queue, measure)
    select n.name, split_part(n.name, E'\n', 1), split_part(n.name, E'\n', 2)
    from (
        select distinct t.name
        from json_array_elements(bounds) as b (value)
        cross join lateral (
            select e.name from json_array_elements_text(b.value -> 'counted') as e (name)
            union all
            select e.name from json_array_elements_text(b.value -> 'checked') as e (name)
        ) t
        where t.name is not null
    ) n
    where not exists (select from headrace.limit_counter b where b.name = n.name)
    order by n.name collate "C"
    on conflict (name) do nothing;
    with known as materialized (
        select b.n, array(
                   select t.id from json_array_elements_text(b.value -> 'counted') as e (name)
                   join headrace.limit_counter t on t.name = e.name order by t.id) as counted,
               array(
                   select coalesce((select t.id from headrace.limit_counter t where t.name = e.name), 0)
                   from json_array_elements_text(b.value -> 'checked')
                        with ordinality as e (name, n) order by e.n) as checked,
               array(
                   select e.most::bigint from json_array_elements_text(b.value -> 'most')
                        with ordinality as e (most, n) order by e.n) as most
        from json_array_elements(bounds) with ordinality as b (value, n)
    ), wanted as (
        select h.channel, k.counted, k.checked, k.most
        from rows from (unnest(channels), unnest(homes)) as h (channel, home)
        join known k on k.n = h.home
    ), bound as (
        update headrace.channel c
        set rules = rule_version, counted = w.counted, checked = w.checked, most = w.most
        from wanted w where c.id = w.channel and w.channel <> 0
    )
    update headrace.queue q
    set rules = rule_version, counted = w.counted, checked = w.checked, most = w.most
    from wanted w where q.id = queue_id and w.channel = 0;
    return true;
end
$$;

-- What is stored about some channels of a queue, 0 for the queue itself, whether it is of a version of
-- the rules, and whether all counters exist.
create function headrace.bounds_of(queue_id integer, channels integer[], rule_version integer)
returns table (id integer, counted integer[], checked integer[], most bigint[], is_bound boolean)
language sql stable as $$
    select c.id, c.counted, c.checked, c.most,
           c.rules >= rule_version
           and not exists (select from unnest(c.counted) as k (counter)
                           where not exists (select from headrace.limit_counter b where b.id = k.counter))
    from (
        select h.id, h.rules, h.counted, h.checked, h.most
        from headrace.channel h where h.id = any(channels)
        union all
        select 0, q.rules, q.counted, q.checked, q.most
        from headrace.queue q where q.id = queue_id and 0 = any(channels)
    ) c
$$;

-- Of some channels whose counters are locked, those with free slots, and the counters that are full for
-- the others.
create function headrace.channels_with_capacity(
    channels integer[], out open_ones integer[], out full_ones integer[]
) language plpgsql as $$
begin
    select array_agg(c.id order by c.n) filter (where not c.is_full) into open_ones
    from (
        select u.id, u.n,
               coalesce(bool_or(coalesce(b.used, 0) >= m.most), false) as is_full
        from unnest(channels) with ordinality as u (id, n)
        cross join lateral (select h.checked, h.most from headrace.channel h where h.id = u.id) k
        left join lateral unnest(k.checked, k.most) as m (counter, most) on true
        left join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b on true
        group by u.id, u.n
    ) c;
    open_ones := coalesce(open_ones, '{}');
    full_ones := '{}';
    if cardinality(open_ones) < cardinality(channels) then
        full_ones := array(
            select distinct m.counter
            from unnest(channels) as u (id)
            cross join lateral (
                select h.checked, h.most from headrace.channel h where h.id = u.id
            ) k
            cross join lateral unnest(k.checked, k.most) as m (counter, most)
            cross join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b
            where b.used >= m.most);
    end if;
end
$$;

-- headrace.claim_in_turn for the first items in line, whatever their channels, where those are not
-- strict. 'other' also if a channel is delayed.
create function headrace.claim_in_line(
    queue_id integer, queue_version integer, claim_token text, most integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, takes_any boolean, moment bigint,
    rules integer, is_tight boolean
) returns table (
    answer text, next_due bigint, clock bigint, line text, items text, counted text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    start record;
    final record;
    chosen bigint[] := '{}';
    spots tid[] := '{}';
    givers integer[] := '{}';
    full_ones integer[] := '{}';
    unbound integer[] := '{}';
    is_passed_over boolean := false;
    number integer;
    word text;
    named text;
begin
    start := headrace.begin_claim(
        queue_id, queue_version, sign, null, rules, not takes_any, moment);
    if start.word is null then
        return;
    end if;
    word := start.word;
    moment := start.clock;
    if word <> 'claimed' then
        null;
    elsif is_tight then
        select t.items, t.spots, t.givers, t.full_ones, t.unbound, t.is_passed_over
        into chosen, spots, givers, full_ones, unbound, is_passed_over
        from headrace.select_in_line(queue_id, most, rules) t;
        word := case when cardinality(unbound) > 0 then 'unbound' else 'claimed' end;
    else
        select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.ctid), '{}'),
               coalesce(array_agg(c.channel), '{}')
        into chosen, spots, givers
        from (
            select i.id, i.ctid, i.channel from headrace.item i
            where i.queue = queue_id and i.state = 1
            order by i.rank, i.position limit most
            for no key update skip locked
        ) c;
    end if;
    final := headrace.confirm_selection(
        word, queue_id, givers, cardinality(chosen) < most, rules, is_tight, takes_any, moment,
        false, start.word = 'claimed', full_ones, is_passed_over);
    if final.word = 'unbound' then
        if not is_tight then
            unbound := array(
                select b.id from headrace.bounds_of(queue_id, array(
                    select distinct g.channel from unnest(givers) as g (channel)), rules) b
                where not b.is_bound);
        end if;
        select string_agg(u.id || E'\x1f' || coalesce(c.key_values, ''), E'\x1e') into named
        from unnest(unbound) as u (id)
        left join lateral (
            select h.key_values from headrace.channel h where h.id = u.id) c on true;
    end if;
    if final.word <> 'claimed' then
        chosen := '{}';
        spots := '{}';
    end if;
    number := cardinality(chosen);
    if keeps_counts and (start.promoted > 0 or number > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (queue_id, -start.promoted, start.promoted - number, number, number);
    end if;
    return query
    select final.word, final.due, moment, coalesce(named, array_to_string(chosen, ',')),
           headrace.mark_claimed(spots, claim_token, claimer, moment, lease),
           -- For a completion of the whole claim.
           array_to_string(final.ids, ',') || ';' || array_to_string(final.numbers, ',');
    if number = 0 then
        return;
    end if;
    if rules > 0 and not is_tight then
        -- Late, so that counters are locked for a short time. They may have filled up meanwhile.
        if not headrace.increment_counters(final.ids, final.numbers, final.limits) then
            raise exception 'no free slots are left' using errcode = 'HR002';
        end if;
    end if;
    nothing := headrace.retire_channels(headrace.empty_channels(array(
        select distinct g.channel from unnest(givers) as g (channel) where g.channel <> 0), false));
end
$$;

-- Claim items of channels that take turns, in one statement: of all channels of the queue, of those of
-- a selection, or of those that the caller names, in the order of their turns. Each channel gives up
-- to a quantum of items; if that is not enough, those that have more share the rest. Further answers
-- to those of headrace.claim_items:
-- - more: there were not enough items, and not all channels were named.
-- - unsorted: for some channels it is not known whether the selection includes them.
-- - floored: there were not enough items above the floor; repeat without a floor.
-- - crowded: a counter has no free slots for all of the items. Repeat with is_tight: then counters are
--   locked first, and each channel gives as many items as there are free slots.
-- - unbound: line names channels whose counters are not known.
-- It also returns the time when the next item is due, and the order of the items.
create function headrace.claim_in_turn(
    queue_id integer, queue_version integer, claim_token text, most integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, quantum integer, is_strict boolean,
    selection integer, asked integer[], are_all boolean, takes_any boolean, moment bigint,
    rules integer, is_tight boolean, floor_turn bigint
) returns table (
    answer text, next_due bigint, clock bigint, line text, first_turn bigint, items text,
    counted text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    start record;
    -- The items: see headrace.select_in_turn and headrace.select_rest.
    found_now record;
    rest record;
    final record;
    has_delays boolean;
    number integer;
    word text;
    unbound text;
    emptied integer[];
begin
    has_delays := exists (select from headrace.channel_delay h
                          where h.queue = queue_id
                            and h.until > coalesce(moment, headrace.clock()));
    start := headrace.begin_claim(
        queue_id, queue_version, sign, selection, rules,
        floor_turn is null and not takes_any, moment);
    if start.word is null then
        return;
    end if;
    moment := start.clock;
    found_now := headrace.select_in_turn(
        start.word, queue_id, most, case when is_strict then 1 else quantum end, is_strict,
        selection, asked, has_delays, moment, rules, is_tight, floor_turn);
    word := found_now.word;
    if word = 'claimed' and cardinality(found_now.items) < most then
        if floor_turn is not null then
            -- The caller repeats it without a floor.
            word := 'floored';
        elsif asked is not null and (not are_all or start.promoted > 0) then
            -- The caller does not know of channels that have just got their first item.
            word := 'more';
        elsif selection is not null and start.promoted > 0
              and headrace.has_unsorted(queue_id, selection) then
            word := 'unsorted';
        elsif not is_strict and cardinality(found_now.items) > 0 then
            rest := headrace.select_rest(
                found_now.givers, quantum, most - cardinality(found_now.items), found_now.items,
                is_tight);
            found_now.items := found_now.items || rest.items;
            found_now.spots := found_now.spots || rest.spots;
            found_now.givers := found_now.givers || rest.givers;
            found_now.ranks := found_now.ranks || rest.ranks;
            found_now.positions := found_now.positions || rest.positions;
            found_now.full_ones := found_now.full_ones || rest.full_ones;
        end if;
    end if;
    final := headrace.confirm_selection(
        word, queue_id, found_now.givers, cardinality(found_now.items) < most, rules, is_tight,
        takes_any, moment, has_delays, false, found_now.full_ones,
        found_now.is_passed_over);
    if final.word = 'unbound' then
        -- Those that come next, too.
        unbound := headrace.unbound_channels(
            queue_id, selection, found_now.candidates || found_now.givers, found_now.seen, rules);
    end if;
    if final.word <> 'claimed' then
        found_now.items := '{}';
        found_now.spots := '{}';
    end if;
    number := cardinality(found_now.items);
    if keeps_counts and (start.promoted > 0 or number > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (queue_id, -start.promoted, start.promoted - number, number, number);
    end if;
    return query
    select final.word, final.due, moment,
           coalesce(unbound, array_to_string(found_now.items, ',')), found_now.first_seen,
           headrace.mark_claimed(found_now.spots, claim_token, claimer, moment, lease),
           -- For a completion of the whole claim.
           array_to_string(final.ids, ',') || ';' || array_to_string(final.numbers, ',');
    emptied := headrace.empty_channels(found_now.visited, floor_turn is not null);
    if number > 0 then
        nothing := headrace.renew_turns(
            found_now.givers, found_now.ranks, found_now.positions, emptied,
            floor_turn is not null, moment);
        if rules > 0 and not is_tight then
            -- Late, so that counters are locked for a short time. They may have filled up meanwhile.
            if not headrace.increment_counters(final.ids, final.numbers, final.limits) then
                raise exception 'no free slots are left' using errcode = 'HR002';
            end if;
        end if;
    end if;
    -- After the counters: a transaction that waits for a counter has no channel locked.
    nothing := headrace.retire_channels(emptied);
end
$$;

-- Claim items that are in no channel, in one statement. Returns no row if there is no such queue, and
-- otherwise one of these answers, with the time when the next item is due:
-- - claimed: items holds what was claimed, perhaps nothing.
-- - other: the queue is paused, frozen, or has other settings. Nothing was changed.
-- - short: leases have expired and must be ended first, since items that return may come first in the
--   order. Not given to claims that take any item (takes_any).
-- - unbound: the counters of the limit rules are not known for this queue at this version of them.
-- With a floor, positions below it are passed over: after many claims under an old snapshot they are
-- full of dead rows. Items in channels are ignored: a queue gets another version with its first
-- channel, but that may happen between two statements.
-- Under limit rules (rules > 0) the items are counted, and no more are claimed than there are free
-- slots. Counters that seem nearly full are locked first, others last. If a counter has filled up by
-- then, the statement aborts with the error HR002.
-- The settings are for tables that have not been analysed: the line is read in its order, not sorted.
create function headrace.claim_items(
    queue_id integer, queue_version integer, claim_token text, most integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, floor_rank integer, floor_position bigint,
    takes_any boolean, moment bigint, rules integer
) returns table (
    answer text, next_due bigint, clock bigint, items text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    target headrace.queue;
    promoted bigint := 0;
    times record;
    chosen tid[];
    due bigint;
    word text := 'claimed';
    wanted integer := most;
    has_counters boolean := false;
    is_due boolean;
    has_lapsed boolean;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    if target.is_paused or target.version <> queue_version or target.held_until > moment then
        word := 'other';
    elsif rules > 0 then
        if target.rules < rules then
            word := 'unbound';
        elsif headrace.has_expired_leases(target.id, moment) then
            word := 'short';
        elsif coalesce(headrace.free_slots(target.checked, target.most) < most, false) then
            word := headrace.lock_counters(target.counted);
            has_counters := true;
            most := least(most, headrace.free_slots(target.checked, target.most));
        end if;
    end if;
    if word <> 'claimed' then
        return query select word, null::bigint, moment, null::text;
        return;
    end if;
    -- The client flushes a counted claim before it uses the items.
    nothing := set_config('synchronous_commit', 'off', true);
    -- With a floor, leases are not checked: the front of their index may be full of dead rows, too.
    select exists (select from headrace.item i
                   where i.queue = target.id and i.state = 0 and i.next_execution <= moment
                     and i.channel = 0),
           rules = 0 and floor_position is null and not takes_any and exists (
               select from headrace.item i
               where i.queue = target.id and i.state = 2 and i.lease_until <= moment)
    into is_due, has_lapsed;
    if is_due then
        promoted := headrace.promote_plain_items(target.id, sign, moment);
    end if;
    if has_lapsed then
        word := 'short';
        chosen := '{}';
    elsif floor_position is null then
        chosen := array(
            select i.ctid from headrace.item i
            where i.queue = target.id and i.state = 1 and i.channel = 0
            order by i.rank, i.position limit most
            for no key update skip locked);
    else
        chosen := headrace.select_plain_above_floor(
            target.id, most, floor_rank, floor_position);
    end if;
    if has_counters then
        update headrace.limit_counter set used = used + cardinality(chosen)
        where id = any(target.counted) and cardinality(chosen) > 0;
        if cardinality(chosen) < wanted then
            perform headrace.wait_on_full_counters(target.id, target.checked, target.most);
        end if;
    end if;
    if word = 'claimed' and cardinality(chosen) < wanted then
        times := headrace.next_due(target.id, moment, false);
        due := times.due;
        if times.lease_end <= moment and not takes_any then
            word := 'short';
            chosen := '{}';
        end if;
    end if;
    if keeps_counts and (promoted > 0 or cardinality(chosen) > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (target.id, -promoted, promoted - cardinality(chosen), cardinality(chosen),
                cardinality(chosen));
    end if;
    return query
    select word, due, moment, headrace.mark_claimed(chosen, claim_token, claimer, moment, lease);
    if rules > 0 and not has_counters and cardinality(chosen) > 0 then
        -- Last, so that counters are locked for a short time.
        nothing := headrace.count_plain_items(
            target.counted, target.checked, target.most, cardinality(chosen));
    end if;
end
$$;

-- Claim records for a proc in one statement, in the simple case: an active proc without a claim and
-- with nothing to skip. In all other cases it answers 'other' and has changed nothing; it returns no
-- row if there is no such proc. The body of the batch that the reader already has is left out. The
-- claim does not wait for a flush: a claim that a crash loses was never made.
create function headrace.claim_records(
    proc_name text, claim_token text, most bigint, max_bytes bigint, known text, moment bigint
) returns table (
    answer text, topic text, low bigint, high bigint, until bigint,
    id text, base_seq bigint, count integer, ts bigint, headers text, body text
) language plpgsql as $$
declare
    reader record;
    log record;
    line record;
    first_id text;
    last_id text;
begin
    select p.cursor, t.next_seq into reader
    from headrace.proc p join headrace.topic t on t.id = p.topic
    where p.name = proc_name and p.status = 'active';
    if found and reader.cursor >= reader.next_seq then
        answer := 'empty';
        return next;
        return;
    end if;
    select p.* into reader from headrace.proc p where p.name = proc_name for update;
    if not found then
        return;
    end if;
    -- Read when the proc is locked, in statements of their own: so they are not older than it.
    select t.* into log from headrace.topic t where t.id = reader.topic;
    if reader.status <> 'active' or reader.cursor is null
       or reader.skipped <> '[]' or reader.isolate_to is not null
       or reader.cursor < log.first_seq or reader.cursor >= log.next_seq
       or exists (select from headrace.proc_claim c where c.proc = reader.id) then
        answer := 'other';
        return next;
        return;
    end if;
    perform set_config('synchronous_commit', 'off', true);
    moment := coalesce(moment, headrace.clock());
    answer := 'claimed';
    topic := log.name;
    low := reader.cursor;
    high := least(low + most, log.next_seq) - 1;
    until := moment + reader.lease;
    for line in
        select b.id::text as id, b.base_seq, b.count, b.ts, b.headers, b.body
        from headrace.batch b
        where b.topic = log.id
          and b.base_seq >= (select max(f.base_seq) from headrace.batch f
                             where f.topic = log.id and f.base_seq <= low)
          and b.base_seq <= high
        order by b.base_seq
    loop
        first_id := coalesce(first_id, line.ts || '-' || low);
        last_id := line.ts || '-' || least(high, line.base_seq + line.count - 1);
        id := line.id;
        base_seq := line.base_seq;
        count := line.count;
        ts := line.ts;
        headers := line.headers;
        body := case when line.id = known then null else line.body end;
        return next;
        max_bytes := max_bytes - octet_length(line.body);
        exit when max_bytes <= 0;
    end loop;
    high := least(high, base_seq + count - 1);
    update headrace.proc p
    set cursor = low, last_claimed_at = moment,
        previous_claimed_range = p.last_claimed_range,
        last_claimed_range = first_id || '..' || last_id,
        expires_at = coalesce(moment + p.ttl, p.expires_at)
    where p.id = reader.id;
    insert into headrace.proc_claim (proc, token, first_seq, last_seq, deadline)
    values (reader.id, claim_token, low, high, until);
end
$$;

-- The database's clock in milliseconds. Every statement that needs the time has it as a parameter,
-- so that tests can set it, and calls this function when the parameter is null.
create function headrace.clock() returns bigint
    language sql volatile parallel safe
    return (extract(epoch from clock_timestamp()) * 1000)::bigint;

-- headrace.complete_items where limit rules count running items. woken is the queues whose waiters were
-- notified, divided by U+001E, * for a waiter without a queue. The error HR002 if some channel is not
-- bound to the rules. If the items are a whole claim, counters and numbers say what the claim has
-- counted, by rules of a version.
create function headrace.complete_counted(
    target integer, queue_version integer, claim_tokens text[], items bigint[],
    keeps_counts boolean, receipt uuid, listener text,
    counted_by integer, counters integer[], numbers bigint[]
) returns table (done text, woken text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    nothing text;
    known headrace.queue;
    gone bigint[];
    homes integer[];
    awaited integer[];
    names text[];
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, target);
    select * into known from headrace.queue q
    where q.id = target and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    -- No flush while counters are locked, since other transactions wait for them: the client flushes.
    nothing := set_config('synchronous_commit', 'off', true);
    with d as (
        delete from headrace.item i
        where i.id = any(items) and i.queue = target
          and i.token = claim_tokens[
              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]
          and i.successor is null
        returning i.id, i.channel
    )
    select coalesce(array_agg(d.id), '{}'), array_agg(d.channel) into gone, homes from d;
    if counted_by = known.limits and cardinality(gone) = cardinality(items) then
        awaited := headrace.decrement_counters(counters, numbers);
    else
        awaited := headrace.uncount_items(target, homes, known.limits);
    end if;
    if awaited is null then
        raise exception 'some channels are not bound to the rules' using errcode = 'HR002';
    end if;
    done := array_to_string(gone, E'\x1e');
    insert into headrace.tally (queue, id, at, ids, active, processed)
    values (target, receipt, headrace.clock(), done,
            case when keeps_counts then -cardinality(gone) else 0 end,
            case when keeps_counts then cardinality(gone) else 0 end);
    if cardinality(awaited) > 0 then
        -- A statement of its own: it sees waiters that came before this transaction had the lock.
        with ended as (
            delete from headrace.limit_waiter w where w.counter = any(awaited) returning w.queue
        )
        select array_agg(distinct coalesce((select q.name from headrace.queue q
                                            where q.id = e.queue), '*'))
        into names from ended e;
        update headrace.limit_counter b set is_awaited = false where b.id = any(awaited);
        woken := array_to_string(names, E'\x1e');
        perform pg_notify(listener, 'queue/' || n.name) from unnest(names) as n (name)
        where listener is not null
          and exists (select from headrace.waiter where until > headrace.clock());
    end if;
    if cardinality(gone) = cardinality(items) then
        done := 'all';
    end if;
    return next;
end
$$;

-- Complete items that are not kept, in one statement; those with a successor stay. There is one token
-- for all of them, or one for each. Returns no row, and changes nothing, if the queue's settings do
-- not have the given version; otherwise what a receipt says (see headrace.tally), or 'all' if all of
-- the items were completed.
create function headrace.complete_items(
    target integer, queue_version integer, claim_tokens text[], items bigint[],
    keeps_counts boolean, receipt uuid
) returns setof text language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    nothing text;
    done text;
    number bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, target);
    perform from headrace.queue q
    where q.id = target and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    nothing := headrace.require_flush();
    with gone as (
        delete from headrace.item i
        where i.id = any(items) and i.queue = target
          and i.token = claim_tokens[
              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]
          and i.successor is null
        returning i.id
    )
    select string_agg(g.id::text, E'\x1e'), count(*) into done, number from gone g;
    insert into headrace.tally (queue, id, at, ids, active, processed)
    values (target, receipt, headrace.clock(), done,
            case when keeps_counts then -number else 0 end,
            case when keeps_counts then number else 0 end);
    return next case when number = cardinality(items) then 'all' else done end;
end
$$;

-- The last check of a claim on a queue with channels, when its items are selected and locked. givers is
-- the channel of each item; is_short: there are fewer than wanted. The word changes if a channel is
-- delayed (is_any_delay: any channel of the queue), if there are no free slots, or if expired leases have
-- to be ended first. If it is no longer 'claimed', counters that were locked first are released. The
-- result has the counters to increment later, and the time when something is due next.
create function headrace.confirm_selection(
    inout word text, queue_id integer, givers integer[], is_short boolean, rules integer,
    is_tight boolean, takes_any boolean, moment bigint, has_delays boolean, is_any_delay boolean,
    full_ones integer[], is_passed_over boolean,
    out due bigint, out ids integer[], out numbers bigint[], out limits bigint[]
) language plpgsql as $$
declare
    nothing text;
    counts record;
    times record;
begin
    -- Checked again after the items are locked: a transaction that returns items to the line and delays
    -- their channel commits both together.
    if is_any_delay then
        perform from headrace.channel_delay h
        where h.queue = queue_id and h.until > moment limit 1;
    elsif word = 'claimed' then
        perform from headrace.channel_delay h
        join headrace.channel k on k.queue = h.queue and k.key_values = h.key_values
        where h.queue = queue_id and h.until > moment and k.id = any(givers) limit 1;
    end if;
    if found and (is_any_delay or word = 'claimed') then
        word := 'other';
    end if;
    if rules > 0 and not is_tight and word = 'claimed' then
        counts := headrace.counters_of(queue_id, givers, rules);
        word := counts.word;
        ids := counts.ids;
        numbers := counts.numbers;
        limits := counts.limits;
    end if;
    if word = 'claimed' and is_short then
        times := headrace.next_due(queue_id, moment, has_delays);
        due := times.due;
        if times.lease_end <= moment and not takes_any then
            word := 'short';
        end if;
    end if;
    if word <> 'claimed' then
        if is_tight then
            nothing := headrace.uncount_items(queue_id, givers, 0);
        end if;
    elsif is_tight and is_short then
        nothing := headrace.add_limit_waiters(queue_id, full_ones);
        if is_passed_over then
            -- The transactions that have locked their counters do not know of this waiter.
            due := least(due, moment + 10);
        end if;
    end if;
end
$$;

-- Count items of a queue that are in no channel as running. The error HR002 if counters have filled up
-- since they were read, or no longer exist.
create function headrace.count_plain_items(
    counted integer[], checked integer[], most bigint[], number integer
) returns void language plpgsql as $$
begin
    if headrace.lock_counters(counted) <> 'claimed'
       or headrace.free_slots(checked, most) < number then
        raise exception 'no free slots are left' using errcode = 'HR002';
    end if;
    update headrace.limit_counter set used = used + number where id = any(counted);
end
$$;

-- The counters that items of a queue count in once they are claimed, given the channel of each item, 0
-- for none: how many items in each, and its limit, in the order in which counters are locked. The word
-- is 'claimed' if there seem to be free slots for all of them, although nothing is locked; 'crowded'
-- if there are not; 'unbound' if some channel is not bound to the version of the rules, or a counter
-- no longer exists.
create function headrace.counters_of(
    queue_id integer, channels integer[], rule_version integer,
    out word text, out ids integer[], out numbers bigint[], out limits bigint[]
) language plpgsql as $$
declare
    single record;
begin
    single := headrace.single_counter(channels, rule_version);
    if single.counter is not null then
        ids := array[single.counter];
        numbers := array[cardinality(channels)];
        limits := array[single.most];
        select case when b.used + numbers[1] > single.most then 'crowded' else 'claimed' end into word
        from headrace.limit_counter b where b.id = single.counter;
        word := coalesce(word, 'unbound');
        return;
    end if;
    with home as materialized (
        select c.counted, c.checked, c.most, c.rules >= rule_version as is_bound, h.number
        from (
            select u.id, count(*)::integer as number
            from unnest(channels) as u (id) group by u.id
        ) h
        cross join lateral (
            select f.rules, f.counted, f.checked, f.most from headrace.channel f where f.id = h.id
            union all
            select q.rules, q.counted, q.checked, q.most from headrace.queue q
            where q.id = queue_id and h.id = 0
        ) c
    )
    select case when not (select bool_and(h.is_bound) from home h)
                     or bool_or(t.counter <> 0 and b.id is null) then 'unbound'
                when bool_or(t.counter = 0 or b.used + t.number > t.most) then 'crowded'
                else 'claimed' end,
           array_agg(t.counter) filter (where t.counter <> 0),
           array_agg(t.number) filter (where t.counter <> 0),
           array_agg(t.most) filter (where t.counter <> 0)
    into word, ids, numbers, limits
    from (
        select k.counter, sum(k.number) as number, min(k.most) as most
        from (
            select unnest(h.counted) as counter, h.number, null::bigint as most from home h
            union all
            select unnest(h.checked), 0, unnest(h.most) from home h
        ) k
        group by k.counter
        order by k.counter
    ) t
    left join headrace.limit_counter b on b.id = t.counter;
end
$$;

-- Decrement counters. Returns those that have waiters.
create function headrace.decrement_counters(ids integer[], numbers bigint[])
returns integer[] language plpgsql as $$
declare
    awaited integer[];
begin
    if cardinality(ids) = 1 then
        update headrace.limit_counter b set used = b.used - numbers[1]
        where b.id = ids[1]
        returning case when b.is_awaited then array[b.id] end into awaited;
        return coalesce(awaited, '{}');
    end if;
    -- One after the other, in their order, as in headrace.increment_counters.
    with changed as (
        update headrace.limit_counter b set used = b.used - n.number
        from (
            select u.counter, u.number
            from unnest(ids, numbers) as u (counter, number) order by u.counter offset 0
        ) n
        where b.id = n.counter
        returning b.id, b.is_awaited
    )
    select coalesce(array_agg(c.id), '{}') into awaited from changed c where c.is_awaited;
    return awaited;
end
$$;

-- Documents to push as rows. They come column by column, divided by U+001E, with U+0015 for null. A column
-- that ends before the others, or is null, continues with nulls; numbers that are null are 0. home is the
-- number of the document's channel among those of the push. n is the order.
create function headrace.document_rows(
    homes text, ranks text, payloads text, formats text, subjects text, priorities text, dues text,
    delays text, headerses text, overrideses text, moment bigint
) returns table (
    home bigint, rank integer, payload text, format smallint, subject text, priority integer,
    due bigint, headers text, overrides text, n bigint
) language sql stable as $$
    select r.home::bigint, coalesce(r.rank::integer, 0), coalesce(r.payload, ''),
           coalesce(r.format::smallint, 0::smallint), r.subject,
           coalesce(r.priority::integer, 0),
           coalesce(r.at::bigint, moment + coalesce(r.delay::bigint, 0)), r.headers, r.overrides,
           r.n
    from rows from (
        string_to_table(homes, E'\x1e', E'\x15'),
        string_to_table(ranks, E'\x1e', E'\x15'),
        string_to_table(payloads, E'\x1e', E'\x15'),
        string_to_table(formats, E'\x1e', E'\x15'),
        string_to_table(subjects, E'\x1e', E'\x15'),
        string_to_table(priorities, E'\x1e', E'\x15'),
        string_to_table(dues, E'\x1e', E'\x15'),
        string_to_table(delays, E'\x1e', E'\x15'),
        string_to_table(headerses, E'\x1e', E'\x15'),
        string_to_table(overrideses, E'\x1e', E'\x15')
    ) with ordinality as r (
        home, rank, payload, format, subject, priority, at, delay, headers, overrides, n
    )
$$;

-- Which channels have nothing in line. has_dead_rows: there may be many rows that cannot be removed yet,
-- but hardly any behind the last position that was claimed.
create function headrace.empty_channels(channels integer[], has_dead_rows boolean)
returns integer[] language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    if has_dead_rows then
        channels := array(
            select c.channel from unnest(channels) as c (channel)
            left join lateral (
                select f.last_rank, f.last_position from headrace.ready_channel f
                where f.channel = c.channel
            ) r on true
            where not exists (
                select from headrace.item i
                where i.channel = c.channel and i.channel <> 0 and i.state = 1
                  and (i.rank, i.position) > (r.last_rank, r.last_position)));
    end if;
    return array(
        select c.channel from unnest(channels) as c (channel)
        where not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 1));
end
$$;

-- Count what was pushed, store a receipt, and notify waiters. Waiters begin while the push is being
-- flushed: then the answer is true, and the client reports the push as done only after the flush. A
-- push without a receipt is part of a longer transaction, which flushes by its own rules.
-- Here and in other functions a result that does not matter is assigned to a variable: plpgsql
-- evaluates an assignment directly, where PERFORM runs a query.
create function headrace.finish_push(
    queue_id integer, queue_name text, receipt uuid, moment bigint, done text, planned bigint,
    pending bigint, listener text
) returns boolean language plpgsql as $$
declare
    nothing text;
begin
    if receipt is not null then
        -- Without one it is part of a longer transaction, which has said what it waits for.
        nothing := headrace.require_flush();
    end if;
    insert into headrace.tally (queue, id, at, ids, planned, pending, entered)
    values (queue_id, receipt, moment, case when receipt is not null then done end,
            planned, pending, planned + pending);
    if listener is null or planned + pending = 0
       or not exists (select from headrace.waiter where until > headrace.clock()) then
        return false;
    end if;
    nothing := pg_notify(listener, 'queue/' || queue_name);
    if receipt is not null then
        nothing := set_config('synchronous_commit', 'off', true);
    end if;
    return receipt is not null;
end
$$;

-- How many more items in no channel may be claimed; null if there is no limit.
create function headrace.free_slots(checked integer[], most bigint[])
returns bigint language plpgsql as $$
begin
    return (select greatest(min(m.most - coalesce(b.used, 0)), 0)
            from unnest(checked, most) as m (counter, most)
            left join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b
                on true);
end
$$;

-- Whether leases have expired that occupy slots: of items of a queue, or of counters.
create function headrace.has_expired_leases(queue_id integer, moment bigint)
returns boolean language plpgsql as $$
begin
    return exists (select from headrace.item i
                   where i.queue = queue_id and i.state = 2 and i.lease_until <= moment)
        or exists (select from headrace.counter c where c.until <= moment);
end
$$;

-- Whether there are ready channels for which it is not known whether a selection includes them.
create function headrace.has_unsorted(queue_id integer, selection_id integer)
returns boolean language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    return exists (select from headrace.ready_channel r where r.queue = queue_id and r.lane = 0)
        or exists (
            select from headrace.lane l
            where l.queue = queue_id
              and l.version < (select s.since from headrace.selection s where s.id = selection_id)
              and exists (select from headrace.ready_channel r
                          where r.queue = queue_id and r.lane = l.id));
end
$$;

-- Which of some strict channels, in this order, may give an item to this transaction: those without an
-- item in flight, and without one that will return to its position. Locks them.
create function headrace.idle_channels(channels integer[]) returns integer[] language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    locked integer[];
begin
    locked := array(
        select l.channel from unnest(channels) as c (channel)
        cross join lateral (
            select r.channel from headrace.ready_channel r where r.channel = c.channel
            for no key update skip locked
        ) l);
    -- A statement of its own: it sees claims that came before this transaction had the lock.
    return array(
        select c.channel from unnest(locked) as c (channel)
        where not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 2)
          and not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 0
                            and i.position is not null));
end
$$;

-- Increment counters, in their order. False if one of them has no free slots for all of it, or no longer
-- exists: then the transaction has to be rolled back.
create function headrace.increment_counters(ids integer[], numbers bigint[], limits bigint[])
returns boolean language plpgsql as $$
declare
    counted bigint;
begin
    if ids is null then
        return true;
    elsif cardinality(ids) = 1 then
        update headrace.limit_counter b set used = b.used + numbers[1]
        where b.id = ids[1] and (limits[1] is null or b.used + numbers[1] <= limits[1]);
        return found;
    end if;
    -- Each is locked when it is changed, one after the other, and compared as it is then. They are
    -- found by their ids, in this order: no caller lets the server read the whole table.
    update headrace.limit_counter b set used = b.used + n.number
    from (
        select u.counter, u.number, u.most
        from unnest(ids, numbers, limits) as u (counter, number, most) order by u.counter offset 0
    ) n
    where b.id = n.counter and (n.most is null or b.used + n.number <= n.most);
    get diagnostics counted = row_count;
    return counted = cardinality(ids);
end
$$;

-- Items to store as rows, column by column: see headrace.document_rows. A column that is null is null in
-- all rows, or 0 for the channel; a payload that is null is empty.
create function headrace.item_rows(
    queues text, ranks text, payloads text, formats text, subjects text, priorities text,
    states text, positions text, next_executions text, waiting_sinces text, created_ats text,
    headerses text, overrideses text, channels text, key_valueses text
) returns table (
    queue integer, rank integer, payload text, format smallint, subject text, priority integer,
    state smallint, "position" bigint, next_execution bigint, waiting_since bigint,
    created_at bigint, headers text, overrides text, channel integer, key_values text, n bigint
) language sql stable as $$
    select r.queue::integer, r.rank::integer, coalesce(r.payload, ''), r.format::smallint,
           r.subject, r.priority::integer, r.state::smallint, r.position::bigint,
           r.next_execution::bigint, r.waiting_since::bigint, r.created_at::bigint, r.headers,
           r.overrides, coalesce(r.channel::integer, 0), r.key_values, r.n
    from rows from (
        string_to_table(queues, E'\x1e', E'\x15'),
        string_to_table(ranks, E'\x1e', E'\x15'),
        string_to_table(payloads, E'\x1e', E'\x15'),
        string_to_table(formats, E'\x1e', E'\x15'),
        string_to_table(subjects, E'\x1e', E'\x15'),
        string_to_table(priorities, E'\x1e', E'\x15'),
        string_to_table(states, E'\x1e', E'\x15'),
        string_to_table(positions, E'\x1e', E'\x15'),
        string_to_table(next_executions, E'\x1e', E'\x15'),
        string_to_table(waiting_sinces, E'\x1e', E'\x15'),
        string_to_table(created_ats, E'\x1e', E'\x15'),
        string_to_table(headerses, E'\x1e', E'\x15'),
        string_to_table(overrideses, E'\x1e', E'\x15'),
        string_to_table(channels, E'\x1e', E'\x15'),
        string_to_table(key_valueses, E'\x1e', E'\x15')
    ) with ordinality as r (
        queue, rank, payload, format, subject, priority, state, position, next_execution,
        waiting_since, created_at, headers, overrides, channel, key_values, n
    )
$$;

-- Lock the counters of some channels. A transaction that has locked counters before (has_others) must
-- not wait: then the answer is only those channels whose counters no other transaction has locked.
create function headrace.lock_channel_counters(channels integer[], has_others boolean)
returns integer[] language plpgsql as $$
declare
    ids integer[] := array(
        select distinct k.counter
        from unnest(channels) as u (id)
        cross join lateral (select h.counted from headrace.channel h where h.id = u.id) c
        cross join lateral unnest(c.counted) as k (counter));
    locked integer[];
begin
    if has_others then
        locked := array(
            select b.id from headrace.limit_counter b where b.id = any(ids)
            order by b.id for no key update skip locked);
    else
        locked := array(
            select b.id from headrace.limit_counter b where b.id = any(ids)
            order by b.id for no key update);
    end if;
    if cardinality(locked) = cardinality(ids) then
        return channels;
    end if;
    return array(
        select u.id from unnest(channels) with ordinality as u (id, n)
        cross join lateral (select h.counted from headrace.channel h where h.id = u.id) c
        where c.counted <@ locked
        order by u.n);
end
$$;

-- Lock the channels of a queue by name, in the order of the names, and create those that do not exist.
-- has_replaceable: the last item of one of them may have to give its position to a newer one.
create function headrace.lock_channels(
    queue_id integer, forms text[], moment bigint, out channels integer[],
    out has_replaceable boolean
) language plpgsql as $$
#variable_conflict use_column
declare
    doubtful integer[];
begin
    loop
        select array_agg(h.id order by n.n), array_agg(h.id) filter (where h.has_updateable)
        into channels, doubtful
        from unnest(forms) with ordinality as n (form, n)
        cross join lateral (
            select c.id, c.has_updateable from headrace.channel c
            where c.queue = queue_id and c.key_values = n.form
            for key share
        ) h;
        exit when cardinality(channels) = cardinality(forms);
        -- Repeat if another transaction has just deleted one that was there.
        insert into headrace.channel (queue, key_values, created_at)
        select queue_id, n.form, moment from unnest(forms) as n (form)
        where not exists (select from headrace.channel c
                          where c.queue = queue_id and c.key_values = n.form)
        order by n.form collate "C"
        on conflict (queue, key_values) do nothing;
    end loop;
    perform from unnest(doubtful) as c (id)
    cross join lateral (
        select f.subject, f.overrides from headrace.item f
        where f.channel = c.id and f.channel <> 0 and f.state = 1
        order by f.rank desc, f.position desc
        limit 1
    ) l
    where l.subject is null and l.overrides::json ->> 'updateable' = 'true'
    limit 1;
    has_replaceable := found;
end
$$;

-- Lock counters: 'claimed', or 'unbound' if one no longer exists.
create function headrace.lock_counters(counters integer[]) returns text language plpgsql as $$
declare
    locked bigint;
begin
    select count(*) into locked
    from (select b.id from headrace.limit_counter b where b.id = any(counters)
          order by b.id for no key update) l;
    return case when locked = cardinality(counters) then 'claimed' else 'unbound' end;
end
$$;

-- Keep all other transactions from counting by limit rules, to change the rules.
create function headrace.lock_limits_exclusive() returns void language plpgsql
set lock_timeout = '1s' as $$
begin
    perform pg_advisory_xact_lock(1214603636, 0);
end
$$;

-- Lock all limit rules against changes until the transaction ends. For transactions that count and may
-- last, that create a queue, or that give one its first channel.
create function headrace.lock_limits_shared() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1214603636, 0);
end
$$;

-- Keep all other transactions out of a queue, to change its discipline, to begin to count its items,
-- or to drop it. Transactions that arrive meanwhile wait behind this one: so it waits for a second at
-- most, and the caller tries again.
create function headrace.lock_queue_exclusive(queue_id integer) returns void language plpgsql
set lock_timeout = '1s' as $$
begin
    perform pg_advisory_xact_lock(1214603634, queue_id);
end
$$;

-- Lock a queue's settings against changes until the transaction ends. A transaction that adds or
-- counts items locks first and reads the settings afterwards, so that it never works by settings that
-- are gone. An advisory lock, shared by many; it costs no write.
create function headrace.lock_queue_shared(queue_id integer) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1214603634, queue_id);
end
$$;

-- Mark items as claimed that this transaction has locked, given by their ctid. The result is one text,
-- because many rows are slow to fetch: items divided by U+001E, the fields of each by U+001F. Most
-- items are new and have no more than a payload and perhaps a channel: these have few fields.
create function headrace.mark_claimed(
    spots tid[], claim_token text, claimer text, moment bigint, lease bigint
) returns text language plpgsql as $$
declare
    handed text;
begin
    if cardinality(spots) = 0 then
        return null;
    end if;
    with h as (
        update headrace.item i
        set state = 2, attempts = i.attempts + 1, token = claim_token, worker = claimer,
            claimed_at = moment,
            lease_until = moment
                + coalesce(((i.overrides::json ->> 'lease')::numeric * 1000)::bigint, lease)
        where i.ctid = any(spots)
        returning case
            when i.attempts = 1 and i.next_execution = i.created_at
                 and i.waiting_since = i.created_at and i.priority = 0 and i.format = 0
                 and i.crashes = 0 and i.iterations = 0 and i.last_iteration is null
                 and i.subject is null and i.headers is null and i.overrides is null
                 and i.error is null and i.successor is null
            then concat_ws(E'\x1f', i.id, i.position, i.created_at, i.payload, i.key_values)
            else concat_ws(
                E'\x1f', i.id, i.position, i.created_at, i.payload, coalesce(i.key_values, E'\x15'),
                i.format, coalesce(i.subject, E'\x15'), i.priority, i.next_execution,
                i.waiting_since, i.attempts, i.crashes, i.iterations,
                coalesce(i.last_iteration::text, E'\x15'), coalesce(i.headers, E'\x15'),
                coalesce(i.overrides, E'\x15'), i.lease_until, coalesce(i.error, E'\x15'),
                coalesce(i.successor, E'\x15'))
            end as line
    )
    select string_agg(h.line, E'\x1e') into handed from h;
    return handed;
end
$$;

-- When something happens next in a queue: the end of the first lease, and the first time of that, of a
-- planned item, and of a delayed channel, if there are any.
create function headrace.next_due(
    queue_id integer, moment bigint, has_delays boolean, out lease_end bigint, out due bigint
) language plpgsql as $$
begin
    select (select min(i.lease_until) from headrace.item i
            where i.queue = queue_id and i.state = 2),
           (select min(i.next_execution) from headrace.item i
            where i.queue = queue_id and i.state = 0)
    into lease_end, due;
    due := least(lease_end, due);
    if has_delays then
        due := least(due, (select min(h.until) from headrace.channel_delay h
                           where h.queue = queue_id and h.until > moment));
    end if;
end
$$;

-- Trigger: number the rows that a longer transaction wrote, all of them when it commits. If it locked
-- the heads of topics any earlier, every other writer would wait for its end, and two such
-- transactions could deadlock. The visible rows that have no number and no stage are our own. A test
-- sets the time with the parameter headrace.now.
create function headrace.number_batches() returns trigger language plpgsql as $$
declare
    moment bigint;
begin
    perform from headrace.batch where id = new.id and base_seq is null;
    if not found then
        return null;  -- an earlier row of this transaction brought this one along
    end if;
    perform from headrace.topic
    where id in (select topic from headrace.batch where base_seq is null and stage is null)
    order by id
    for no key update;
    select greatest(
               max(last_ts),
               coalesce(nullif(current_setting('headrace.now', true), '')::bigint,
                        headrace.clock()))
    into moment
    from headrace.topic
    where id in (select topic from headrace.batch where base_seq is null and stage is null);
    with placed as (
        update headrace.batch b
        set base_seq = place.seq, ts = moment
        from (select u.id,
                     t.next_seq + sum(u.count) over (partition by u.topic order by u.id) - u.count
                         as seq
              from headrace.batch u
              join headrace.topic t on t.id = u.topic
              where u.base_seq is null and u.stage is null) place
        where b.id = place.id and b.base_seq is null
        returning b.topic, b.count
    )
    update headrace.topic t
    set next_seq = t.next_seq + total.count, last_ts = moment
    from (select topic, sum(count) as count from placed group by topic) total
    where t.id = total.topic;
    perform pg_notify('headrace_' || tg_table_schema, '')
    where exists (select from headrace.waiter where until > headrace.clock());
    return null;
end
$$;

-- Make this transaction find rows by keys, however small the tables are. The server keeps plans, and the
-- best plan for a table of a few rows reads all of it; the server does not plan again while the table
-- grows, until it is analysed. A plan is kept as it was made: a statement that is also sent outside of
-- transactions may have one that was made there. Joins are not affected: a statement that joins a list
-- of rows with a table also says which keys these are.
create function headrace.plan_by_keys() returns text language sql as $$
    select set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true)
        || set_config('jit', 'off', true)
$$;

-- Move planned items that are due to the line, in the order in which they became due. Returns how many
-- there were.
create function headrace.promote_items(queue_id integer, sign integer, moment bigint)
returns bigint language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    items bigint[];
    homes integer[];
    promoted bigint := 0;
begin
    loop
        select array_agg(d.id), array_agg(d.channel) into items, homes
        from (
            select i.id, i.channel from headrace.item i
            where i.queue = queue_id and i.state = 0 and i.next_execution <= moment
            order by i.next_execution, i.id
            limit 1000
            for no key update skip locked
        ) d;
        exit when items is null;
        perform from headrace.channel c where c.id = any(homes) order by c.key_values for key share;
        -- Materialized: a plan may read a subquery again for every row, and draw turns each time.
        with turns as materialized (
            select n.id, nextval('headrace.turn') as turn from unnest(items) as n (id)
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from turns t where i.id = t.id;
        insert into headrace.ready_channel (channel, queue, lane, turn)
        select t.channel, queue_id, (select c.lane from headrace.channel c where c.id = t.channel),
               t.turn
        from (
            select d.channel, nextval('headrace.turn') as turn
            from (
                select h.channel from unnest(homes) with ordinality as h (channel, n)
                where h.channel <> 0
                  and not exists (select from headrace.ready_channel r where r.channel = h.channel)
                group by h.channel order by min(h.n)
            ) d
        ) t
        order by t.channel
        on conflict (channel) do nothing;
        promoted := promoted + cardinality(items);
        exit when cardinality(items) < 1000;
    end loop;
    return promoted;
end
$$;

-- headrace.promote_items for items in no channel.
create function headrace.promote_plain_items(queue_id integer, sign integer, moment bigint)
returns bigint language plpgsql as $$
declare
    promoted bigint := 0;
    moved bigint;
begin
    loop
        with due_now as materialized (
            select i.id from headrace.item i
            where i.queue = queue_id and i.state = 0 and i.next_execution <= moment
              and i.channel = 0
            order by i.next_execution, i.id
            limit 1000
            for no key update skip locked
        ), turns as materialized (
            select d.id, nextval('headrace.turn') as turn from due_now d
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from turns t where i.id = t.id;
        get diagnostics moved = row_count;
        promoted := promoted + moved;
        exit when moved < 1000;
    end loop;
    return promoted;
end
$$;

-- headrace.push_items for one document, the most frequent push.
create function headrace.push_item(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text,
    item_rank integer, item_payload text, item_format smallint, item_subject text,
    item_priority integer, due bigint, delay bigint, item_headers text, item_overrides text
) returns table (done text, is_under_way boolean) language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    number bigint;
    is_due boolean;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    due := coalesce(due, moment + coalesce(delay, 0));
    is_due := due <= moment;
    insert into headrace.item as i (
        queue, rank, payload, format, subject, priority, state, position,
        next_execution, waiting_since, created_at, headers, overrides
    )
    values (queue_id, item_rank, item_payload, item_format, item_subject, item_priority,
            is_due::integer, case when is_due then sign * nextval('headrace.turn') end,
            due, moment, moment, item_headers, item_overrides)
    on conflict (queue, subject) where i.subject is not null do nothing
    returning i.id into number;
    done := number::text || coalesce(E'\x1f' || item_subject, '');
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done,
        (number is not null and not is_due)::integer, (number is not null and is_due)::integer,
        channel);
    return next;
end
$$;

-- Push new documents to a queue in one statement. Returns no row if the queue's settings do not have
-- the given version. Otherwise done is what a receipt says (see headrace.tally), null if all subjects
-- are in use; is_under_way says that the push may not be flushed yet (see headrace.finish_push).
-- See headrace.document_rows for the documents.
create function headrace.push_items(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text,
    ranks text, payloads text, formats text, subjects text, priorities text, dues text,
    delays text, headerses text, overrideses text
) returns table (done text, is_under_way boolean) language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    planned bigint;
    pending bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    with fresh as (
        insert into headrace.item as i (
            queue, rank, payload, format, subject, priority, state, position,
            next_execution, waiting_since, created_at, headers, overrides
        )
        select queue_id, d.rank, d.payload, d.format, d.subject, d.priority,
               case when d.due <= moment then 1 else 0 end,
               case when d.due <= moment then sign * nextval('headrace.turn') end,
               d.due, moment, moment, d.headers, d.overrides
        from (
            select r.* from headrace.document_rows(
                null, ranks, payloads, formats, subjects, priorities, dues, delays, headerses,
                overrideses, moment) r
            order by r.n
        ) d
        on conflict (queue, subject) where i.subject is not null do nothing
        returning i.id, i.subject, i.state
    )
    select string_agg(f.id::text || coalesce(E'\x1f' || f.subject, ''), E'\x1e'),
           count(*) filter (where f.state = 0), count(*) filter (where f.state = 1)
    into done, planned, pending from fresh f;
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done, planned, pending, channel);
    return next;
end
$$;

-- headrace.push_items for documents that are a payload and nothing else, as most are.
create function headrace.push_payloads(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text,
    payloads text
) returns table (done text, is_under_way boolean) language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    ids bigint[];
    number bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    with fresh as (
        insert into headrace.item as i (
            queue, payload, state, position, next_execution, waiting_since, created_at
        )
        select queue_id, d.payload, 1, sign * nextval('headrace.turn'), moment, moment, moment
        from string_to_table(payloads, E'\x1e') as d (payload)
        returning i.id
    )
    select array_agg(f.id), count(*) into ids, number from fresh f;
    -- In this order, but other transactions may have some ids in between.
    done := case when ids[number] - ids[1] = number - 1 then ids[1] || E'\x1d' || ids[number]
                 else array_to_string(ids, E'\x1e') end;
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done, 0, number, channel);
    return next;
end
$$;

-- headrace.push_items for documents in channels. The channels come by name, in order; homes says which
-- document belongs to which. done is '-1', and nothing was changed, if the last item of one of the
-- channels may have to be replaced.
create function headrace.push_to_channels(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint,
    listener text, names text, homes text, ranks text, payloads text, formats text,
    subjects text, priorities text, dues text, delays text, headerses text, overrideses text
) returns table (done text, is_under_way boolean) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    forms text[] := string_to_array(names, E'\x1e');
    found_now record;
    planned bigint;
    pending bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    found_now := headrace.lock_channels(queue_id, forms, moment);
    if found_now.has_replaceable then
        done := '-1';
        return next;
        return;
    end if;
    with fresh as (
        insert into headrace.item as i (
            queue, rank, payload, format, subject, priority, state, position,
            next_execution, waiting_since, created_at, headers, overrides, channel, key_values
        )
        select queue_id, d.rank, d.payload, d.format, d.subject, d.priority,
               case when d.due <= moment then 1 else 0 end,
               case when d.due <= moment then sign * nextval('headrace.turn') end,
               d.due, moment, moment, d.headers, d.overrides, d.channel, d.form
        from (
            select r.*, h.channel, h.form
            from headrace.document_rows(
                homes, ranks, payloads, formats, subjects, priorities, dues, delays, headerses,
                overrideses, moment) r
            join rows from (unnest(found_now.channels), unnest(forms))
                 with ordinality as h (channel, form, n) on h.n = r.home
            order by r.n
        ) d
        on conflict (queue, subject) where i.subject is not null do nothing
        returning i.id, i.subject, i.state, i.channel
    ), waiting as (
        -- In the order of their documents; entered in that of the channels, as all do it.
        select w.channel, nextval('headrace.turn') as turn
        from (
            select f.channel from fresh f
            where f.state = 1
              and not exists (select from headrace.ready_channel r where r.channel = f.channel)
            group by f.channel order by min(f.id)
        ) w
    ), lined as (
        insert into headrace.ready_channel (channel, queue, lane, turn)
        select w.channel, queue_id, (select c.lane from headrace.channel c where c.id = w.channel),
               w.turn
        from waiting w order by w.channel
        on conflict (channel) do nothing
    )
    select string_agg(f.id::text || coalesce(E'\x1f' || f.subject, ''), E'\x1e'),
           count(*) filter (where f.state = 0), count(*) filter (where f.state = 1)
    into done, planned, pending from fresh f;
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done, planned, pending, listener);
    return next;
end
$$;

-- Give channels a new turn after they gave items, in the order of the first item of each, and store the
-- place of the last item. givers, ranks and positions are of the items; emptied channels get no turn.
create function headrace.renew_turns(
    givers integer[], ranks integer[], positions bigint[], emptied integer[], has_floor boolean,
    moment bigint
) returns void language plpgsql as $$
declare
    turns bigint[];
begin
    select array_agg(g.channel order by g.first), array_agg(g.rank order by g.first),
           array_agg(g.place order by g.first)
    into givers, ranks, positions
    from (
        select g.channel, min(g.n) as first, (array_agg(g.rank order by g.n desc))[1] as rank,
               (array_agg(g.place order by g.n desc))[1] as place
        from rows from (unnest(givers), unnest(ranks), unnest(positions))
            with ordinality as g (channel, rank, place, n)
        where g.channel <> all(emptied)
        group by g.channel
    ) g;
    turns := array(select nextval('headrace.turn') from generate_series(1, cardinality(givers)));
    update headrace.ready_channel r
    set turn = t.turn, last_rank = t.rank, last_position = t.place,
        last_look = case when has_floor and r.last_look > moment - 1000
                         then r.last_look else moment end
    from (
        select l.channel, s.turn, s.rank, s.place
        from rows from (unnest(givers), unnest(turns), unnest(ranks), unnest(positions))
            as s (channel, turn, rank, place)
        cross join lateral (
            select f.channel from headrace.ready_channel f where f.channel = s.channel
            for no key update skip locked
        ) l
    ) t
    where r.channel = t.channel;
end
$$;

-- Make COMMIT of this transaction wait for the flush of its WAL, whatever the server's default is or
-- becomes before that. Any default but off flushes too, and may wait for standbys: it is kept. A store
-- that is relaxed sets the parameter headrace.relaxed.
create function headrace.require_flush() returns text language sql as $$
    select case when current_setting('headrace.relaxed', true) = 'on' then null
                else set_config('synchronous_commit',
                                replace(current_setting('synchronous_commit'), 'off', 'on'), true) end
$$;

-- Remove channels that have nothing in line from the ready channels, and give those a new turn that
-- have something after all. A transaction that adds an item locks the channel: so this one locks it
-- too, and checks again.
create function headrace.retire_channels(channels integer[]) returns void language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    free integer[];
    gone integer[];
begin
    if cardinality(channels) = 0 then
        return;
    end if;
    free := array(
        select c.id from headrace.channel c where c.id = any(channels) for update skip locked);
    with removed as (
        delete from headrace.ready_channel where channel = any(array(
            select r.channel from headrace.ready_channel r
            where r.channel = any(free)
              and not exists (select from headrace.item i
                              where i.channel = r.channel and i.channel <> 0 and i.state = 1)
            for update skip locked))
        returning channel
    )
    select array_agg(r.channel) into gone from removed r;
    if coalesce(cardinality(gone), 0) < cardinality(channels) then
        update headrace.ready_channel set turn = nextval('headrace.turn')
        where channel = any(array(
            select r.channel from headrace.ready_channel r
            where r.channel = any(channels) and r.channel <> all(coalesce(gone, '{}'))
            for no key update skip locked));
    end if;
end
$$;

-- headrace.select_from_channels where the fronts of the lines may be full of dead rows: the items that
-- go before the last claimed one by their priority, and then those behind it.
create function headrace.select_above_floor(
    channels integer[], share integer, wanted integer, moment bigint,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[]
) language plpgsql as $$
begin
    select array_agg(x.id), array_agg(x.spot), array_agg(x.channel), array_agg(x.rank),
           array_agg(x.position)
    into items, spots, givers, ranks, positions
    from (
        select i.id, i.spot, c.channel, i.rank, i.position
        from unnest(channels) as c (channel)
        left join lateral (
            select f.last_rank, f.last_position from headrace.ready_channel f
            where f.channel = c.channel and f.last_look > moment - 1000
            -- Keeps the join in the order of the channels.
            offset 0
        ) r on true
        cross join lateral (
            select u.id, u.spot, u.rank, u.position from (
                select a.* from (
                    select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                    where f.channel = c.channel and f.channel <> 0 and f.state = 1
                      and f.rank < r.last_rank
                    order by f.rank, f.position
                    limit share
                    for no key update skip locked
                ) a
                union all
                select b.* from (
                    select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                    where f.channel = c.channel and f.channel <> 0 and f.state = 1
                      and (f.rank, f.position) > (coalesce(r.last_rank, -2147483648),
                                                  coalesce(r.last_position, 0))
                    order by f.rank, f.position
                    limit share
                    for no key update skip locked
                ) b
            ) u
            limit share
        ) i
        limit wanted
    ) x;
end
$$;

-- Select and lock items of channels whose counters are locked, up to a share of each channel, and count
-- them channel by channel, so that a slot is used once. Items in "but" are passed over.
create function headrace.select_counted(
    channels integer[], share integer, wanted integer, but bigint[],
    out items bigint[], out spots tid[], out givers integer[], out full_ones integer[]
) language plpgsql as $$
declare
    channel_id integer;
    home headrace.channel;
    slots bigint;
    full_now integer[];
    found_now bigint[];
    spots_now tid[];
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    full_ones := '{}';
    foreach channel_id in array channels loop
        exit when cardinality(items) = wanted;
        select c.* into home from headrace.channel c where c.id = channel_id;
        select min(m.most - coalesce(b.used, 0)),
               array_agg(m.counter) filter (where m.counter <> 0 and b.used >= m.most)
        into slots, full_now
        from unnest(home.checked, home.most) as m (counter, most)
        left join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b on true;
        if slots <= 0 then
            full_ones := full_ones || full_now;
            continue;
        end if;
        select array_agg(t.id), array_agg(t.ctid) into found_now, spots_now
        from (
            select f.id, f.ctid from headrace.item f
            where f.channel = channel_id and f.channel <> 0 and f.state = 1 and f.id <> all(but)
            order by f.rank, f.position
            limit least(share, slots, wanted - cardinality(items))
            for no key update skip locked
        ) t;
        if found_now is not null then
            update headrace.limit_counter set used = used + cardinality(found_now)
            where id = any(home.counted);
            items := items || found_now;
            spots := spots || spots_now;
            givers := givers || array_fill(channel_id, array[cardinality(found_now)]);
        end if;
    end loop;
end
$$;

-- Select and lock items of channels, in the order of the channels, up to a share of each. Items in "but"
-- are passed over.
create function headrace.select_from_channels(
    channels integer[], share integer, wanted integer, but bigint[],
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[]
) language plpgsql as $$
begin
    select array_agg(x.id), array_agg(x.spot), array_agg(x.channel), array_agg(x.rank),
           array_agg(x.position)
    into items, spots, givers, ranks, positions
    from (
        select i.id, i.spot, c.channel, i.rank, i.position
        from unnest(channels) as c (channel)
        cross join lateral (
            select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
            where f.channel = c.channel and f.channel <> 0 and f.state = 1 and f.id <> all(but)
            order by f.rank, f.position
            limit share
            for no key update skip locked
        ) i
        limit wanted
    ) x;
end
$$;

-- Select and lock items in line, page by page, while there are free slots for some, and count each.
-- Counters are locked before. A transaction that has locked some already passes over items whose
-- counters another transaction has locked.
create function headrace.select_in_line(
    queue_id integer, wanted integer, rule_version integer,
    out items bigint[], out spots tid[], out givers integer[], out full_ones integer[],
    out unbound integer[], out is_passed_over boolean
) language plpgsql as $$
declare
    page integer := greatest(wanted, 50);
    last_rank integer := -2147483648;
    last_position bigint := -9223372036854775808;
    has_counters boolean := false;
    entry record;
    spot tid;
    looked integer;
    homes integer[];
    counters integer[];
    locked integer[] := '{}';
    -- Channels without free slots.
    shut integer[] := '{}';
    slots bigint;
    full_now integer[];
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    full_ones := '{}';
    unbound := '{}';
    is_passed_over := false;
    loop
        homes := array(
            select distinct p.channel from (
                select i.channel from headrace.item i
                where i.queue = queue_id and i.state = 1
                  and (i.rank, i.position) > (last_rank, last_position)
                order by i.rank, i.position limit page) p
            where p.channel <> all(shut));
        unbound := array(select b.id from headrace.bounds_of(queue_id, homes, rule_version) b
                         where not b.is_bound);
        exit when cardinality(unbound) > 0;
        counters := array(
            select distinct k.counter from headrace.bounds_of(queue_id, homes, rule_version) b
            cross join lateral unnest(b.counted) as k (counter)
            where k.counter <> all(locked));
        if has_counters then
            locked := locked || array(
                select b.id from headrace.limit_counter b where b.id = any(counters)
                order by b.id for no key update skip locked);
            full_now := array(
                select b.id from headrace.bounds_of(queue_id, homes, rule_version) b
                where not b.counted <@ locked);
            is_passed_over := is_passed_over or cardinality(full_now) > 0;
            shut := shut || full_now;
        else
            locked := array(
                select b.id from headrace.limit_counter b where b.id = any(counters)
                order by b.id for no key update);
            has_counters := true;
        end if;
        looked := 0;
        for entry in
            select i.id, i.channel, i.rank, i.position from headrace.item i
            where i.queue = queue_id and i.state = 1
              and (i.rank, i.position) > (last_rank, last_position)
            order by i.rank, i.position limit page
        loop
            looked := looked + 1;
            last_rank := entry.rank;
            last_position := entry.position;
            continue when entry.channel = any(shut) or entry.channel <> all(homes);
            select min(m.most - coalesce(t.used, 0)),
                   array_agg(m.counter) filter (where m.counter <> 0 and t.used >= m.most)
            into slots, full_now
            from headrace.bounds_of(queue_id, array[entry.channel], rule_version) b
            cross join lateral unnest(b.checked, b.most) as m (counter, most)
            left join lateral (select u.used from headrace.limit_counter u where u.id = m.counter) t on true;
            if slots <= 0 then
                shut := shut || entry.channel;
                full_ones := full_ones || full_now;
                continue;
            end if;
            select i.ctid into spot from headrace.item i where i.id = entry.id and i.state = 1
            for no key update skip locked;
            continue when not found;
            update headrace.limit_counter t set used = t.used + 1
            from headrace.bounds_of(queue_id, array[entry.channel], rule_version) b
            where t.id = any(b.counted);
            items := items || entry.id;
            spots := spots || spot;
            givers := givers || entry.channel;
            exit when cardinality(items) = wanted;
        end loop;
        exit when cardinality(items) = wanted or looked < page;
        page := 1000;
    end loop;
end
$$;

-- Select and lock items of ready channels in the order of their turns, or of the channels that the
-- caller names (asked), up to a share of each. See headrace.claim_in_turn for the other parameters; it
-- selects nothing if the word is not 'claimed'. visited is the channels that were read for items,
-- candidates the last of them, seen and first_seen the last and the first turn; full_ones are counters
-- without free slots; is_passed_over: a counter was locked by another transaction.
create function headrace.select_in_turn(
    inout word text, queue_id integer, wanted integer, share integer, is_strict boolean,
    selection integer, asked integer[], has_delays boolean, moment bigint, rules integer,
    is_tight boolean, floor_turn bigint,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[], out visited integer[], out candidates integer[], out seen bigint,
    out first_seen bigint, out full_ones integer[], out is_passed_over boolean
) language plpgsql as $$
declare
    -- How many channels are read together.
    width integer := least(greatest(wanted, 10), 1000);
    number integer;
    first_now bigint;
    got record;
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    ranks := '{}';
    positions := '{}';
    visited := '{}';
    full_ones := '{}';
    seen := coalesce(floor_turn, -1);
    while word = 'claimed' loop
        if asked is not null then
            candidates := asked;
        else
            select array_agg(r.channel), max(r.turn), min(r.turn) into candidates, seen, first_now
            from (
                select n.channel, n.turn
                -- In the same statement: another transaction may be moving channels to new lanes.
                from (
                    select 0 as id where selection is null
                    union all
                    select k.id from headrace.lane k
                    where k.queue = queue_id
                      and (selection is null or k.selections like '%,' || selection || ',%')
                ) l
                cross join lateral (
                    select f.channel, f.turn from headrace.ready_channel f
                    where f.queue = queue_id and f.lane = l.id and f.turn > seen
                    order by f.turn limit width
                ) n
                order by n.turn limit width
            ) r;
            first_seen := coalesce(first_seen, first_now);
        end if;
        exit when candidates is null;
        number := cardinality(candidates);
        if has_delays then
            candidates := headrace.undelayed_channels(candidates, moment);
        end if;
        if is_strict then
            candidates := headrace.idle_channels(candidates);
        end if;
        if is_tight and exists (
            select from headrace.bounds_of(queue_id, candidates, rules) b where not b.is_bound
        ) then
            word := 'unbound';
            exit;
        end if;
        if is_tight then
            got := headrace.select_tight(
                candidates, share, wanted - cardinality(items), is_passed_over is not null);
            candidates := got.visited;
            full_ones := full_ones || got.full_ones;
            is_passed_over := coalesce(is_passed_over, false) or got.is_passed_over;
        elsif floor_turn is not null then
            got := headrace.select_above_floor(
                candidates, share, wanted - cardinality(items), moment);
        else
            got := headrace.select_from_channels(
                candidates, share, wanted - cardinality(items), '{}');
        end if;
        items := items || got.items;
        spots := spots || got.spots;
        givers := givers || got.givers;
        ranks := ranks || got.ranks;
        positions := positions || got.positions;
        if cardinality(items) = wanted then
            visited := visited
                || candidates[1 : array_position(candidates, givers[cardinality(givers)])];
            exit;
        end if;
        visited := visited || candidates;
        exit when asked is not null or number < width;
        width := least(4 * width, 1000);
    end loop;
end
$$;

-- Select and lock the first items in no channel: those before the floor by their priority, those from the
-- floor on, and, if that is not enough, those below it.
create function headrace.select_plain_above_floor(
    queue_id integer, wanted integer, floor_rank integer, floor_position bigint
) returns tid[] language plpgsql as $$
declare
    chosen tid[];
    more tid[];
begin
    chosen := array(
        select i.ctid from headrace.item i
        where i.queue = queue_id and i.state = 1 and i.channel = 0 and i.rank < floor_rank
        order by i.rank, i.position limit wanted
        for no key update skip locked);
    if cardinality(chosen) < wanted then
        more := array(
            select i.ctid from headrace.item i
            where i.queue = queue_id and i.state = 1 and i.channel = 0
              and i.rank = floor_rank and i.position >= floor_position
            order by i.rank, i.position limit wanted - cardinality(chosen)
            for no key update skip locked);
        chosen := chosen || more;
    end if;
    if cardinality(chosen) < wanted then
        more := array(
            select i.ctid from headrace.item i
            where i.queue = queue_id and i.state = 1 and i.channel = 0
              and i.ctid <> all(chosen)
            order by i.rank, i.position limit wanted - cardinality(chosen)
            for no key update skip locked);
        chosen := chosen || more;
    end if;
    return chosen;
end
$$;

-- Select and lock more items of channels that gave a whole quantum, until there are as many as wanted or
-- no channel has more. gave is the channel of each item so far, chosen the items.
create function headrace.select_rest(
    gave integer[], quantum integer, wanted integer, chosen bigint[], is_tight boolean,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[], out full_ones integer[]
) language plpgsql as $$
declare
    share integer := quantum;
    candidates integer[];
    got record;
begin
    while wanted > 0 loop
        candidates := array(
            select g.channel from unnest(gave) with ordinality as g (channel, n)
            group by g.channel having count(*) = share order by min(g.n));
        exit when cardinality(candidates) = 0;
        share := greatest(quantum, ceil(wanted::numeric / cardinality(candidates)));
        if is_tight then
            got := headrace.select_counted(candidates, share, wanted, chosen);
            full_ones := full_ones || got.full_ones;
        else
            got := headrace.select_from_channels(candidates, share, wanted, chosen);
            ranks := ranks || got.ranks;
            positions := positions || got.positions;
        end if;
        exit when coalesce(cardinality(got.items), 0) = 0;
        gave := got.givers;
        chosen := chosen || got.items;
        items := items || got.items;
        spots := spots || got.spots;
        givers := givers || got.givers;
        wanted := wanted - cardinality(got.items);
    end loop;
end
$$;

-- headrace.select_from_channels with counters locked first: counts the items, and passes over channels
-- without free slots. A transaction that has locked counters before (has_others) also passes over
-- channels whose counters another transaction has locked, and says so. visited is the channels that
-- were read for items.
create function headrace.select_tight(
    channels integer[], share integer, wanted integer, has_others boolean,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[], out visited integer[], out full_ones integer[],
    out is_passed_over boolean
) language plpgsql as $$
declare
    found_now record;
begin
    visited := headrace.lock_channel_counters(channels, has_others);
    is_passed_over := cardinality(visited) < cardinality(channels);
    found_now := headrace.channels_with_capacity(visited);
    visited := found_now.open_ones;
    full_ones := found_now.full_ones;
    found_now := headrace.select_counted(visited, share, wanted, '{}');
    items := found_now.items;
    spots := found_now.spots;
    givers := found_now.givers;
    full_ones := full_ones || found_now.full_ones;
end
$$;

-- The counter that items of all the given channels count in, if it is the only one, with its limit: most
-- items are under one rule, or none. Null if there are others, or if some channel is not bound to a
-- version of the rules.
create function headrace.single_counter(
    channels integer[], rule_version integer, out counter integer, out most bigint
) language plpgsql as $$
declare
    home record;
begin
    select c.counted, c.checked, c.most into home
    from headrace.channel c where c.id = channels[1];
    if home.counted = home.checked and cardinality(home.counted) = 1
            and array_position(channels, 0) is null then
        perform from headrace.channel c
        where c.id = any(channels)
          and (c.rules >= rule_version and c.counted = home.counted
               and c.checked = home.checked and c.most = home.most) is not true
        limit 1;
        if not found then
            counter := home.counted[1];
            most := home.most[1];
        end if;
    end if;
end
$$;

-- The live items of subjects, by key: see headrace.token_of.
create function headrace.subject_items(queue_id integer, subjects text[])
returns table (id bigint, subject text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
    return query
    select i.id, i.subject from headrace.item i
    where i.queue = queue_id and i.subject = any(subjects);
end
$$;

-- The token of the claim on an item of a queue, null if it is not claimed. By key, even if a table is
-- so small that another plan would be cheaper: see headrace.claim_items.
create function headrace.token_of(queue_id integer, item_id bigint) returns text language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    return (select i.token from headrace.item i where i.id = item_id and i.queue = queue_id);
end
$$;

-- Channels whose counters are not known for a version of the rules, by id and name: of the given
-- channels, and of those that come next behind a turn.
create function headrace.unbound_channels(
    queue_id integer, selection_id integer, channels integer[], seen bigint, rule_version integer
) returns text language plpgsql as $$
begin
    return (
        select string_agg(c.id || E'\x1f' || c.key_values, E'\x1e')
        from (
            select u.id from unnest(channels) as u (id)
            union
            select n.channel
            from (
                select 0 as id where selection_id is null
                union all
                select k.id from headrace.lane k
                where k.queue = queue_id
                  and (selection_id is null or k.selections like '%,' || selection_id || ',%')
            ) l
            cross join lateral (
                select f.channel from headrace.ready_channel f
                where f.queue = queue_id and f.lane = l.id and f.turn > seen
                order by f.turn limit 200
            ) n
        ) u
        cross join lateral (
            select h.id, h.key_values from headrace.channel h
            where h.id = u.id
              and (h.rules < rule_version
                   or exists (select from unnest(h.counted) as k (counter)
                              where not exists (select from headrace.limit_counter b
                                                where b.id = k.counter)))
        ) c);
end
$$;

-- Decrement the counters of items of a queue that are no longer claimed, given the channel of each item,
-- 0 for none. Returns the counters that have waiters. Null if some channel is not bound to the
-- version of the rules: then the transaction has to be rolled back.
create function headrace.uncount_items(queue_id integer, channels integer[], rule_version integer)
returns integer[] language plpgsql as $$
declare
    ids integer[];
    numbers bigint[];
    is_bound boolean;
    single record;
begin
    single := headrace.single_counter(channels, rule_version);
    if single.counter is not null then
        return headrace.decrement_counters(array[single.counter], array[cardinality(channels)]);
    end if;
    select bool_and(t.is_bound),
           array_agg(t.counter) filter (where t.counter is not null),
           array_agg(t.number) filter (where t.counter is not null)
    into is_bound, ids, numbers
    from (
        select k.counter, bool_and(c.rules >= rule_version) as is_bound, sum(h.number) as number
        from (
            select u.id, count(*)::integer as number
            from unnest(channels) as u (id) group by u.id
        ) h
        cross join lateral (
            select f.rules, f.counted from headrace.channel f where f.id = h.id
            union all
            select q.rules, q.counted from headrace.queue q where q.id = queue_id and h.id = 0
        ) c
        left join lateral unnest(c.counted) as k (counter) on true
        group by k.counter
    ) t;
    if not is_bound then
        return null;
    end if;
    return headrace.decrement_counters(ids, numbers);
end
$$;

-- Which of some channels are not delayed, in the same order.
create function headrace.undelayed_channels(channels integer[], moment bigint)
returns integer[] language plpgsql as $$
begin
    return array(
        select c.channel from unnest(channels) with ordinality as c (channel, n)
        where not exists (
            select from headrace.channel k
            join headrace.channel_delay h on h.queue = k.queue and h.key_values = k.key_values
            where k.id = c.channel and h.until > moment)
        order by c.n);
end
$$;

-- Register a queue as a waiter on those of some counters that are full; all of them are locked.
create function headrace.wait_on_full_counters(queue_id integer, checked integer[], most bigint[])
returns void language plpgsql as $$
begin
    perform headrace.add_limit_waiters(queue_id, array(
        select m.counter from unnest(checked, most) as m (counter, most)
        cross join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b
        where b.used >= m.most));
end
$$;

create constraint trigger number_batches after insert on headrace.batch
    deferrable initially deferred
    for each row when (new.base_seq is null and new.stage is null)
    execute function headrace.number_batches();
-- Also for a role or a session with session_replication_role = replica. Rows that a subscriber gets
-- by logical replication have their numbers.
alter table headrace.batch enable always trigger number_batches;
insert into "headrace".migration values (11, 'schema');

insert into "headrace".function_set (id, digest, installed, release, signatures)
select 1, '64d2a79eab44bf06e097d9c143d92833fa6f125b6656fcdebdc21cbecad3b723', (
    select coalesce(md5(string_agg(replace(concat_ws('|', lower(concat(p.proname, '(', pg_get_function_arguments(p.oid), ') ', pg_get_function_result(p.oid))), l.lanname, p.provolatile,
               p.proisstrict, p.prosecdef, p.proconfig, p.prosrc, pg_get_function_sqlbody(p.oid)),
               'headrace.', ''), chr(10) order by lower(concat(p.proname, '(', pg_get_function_arguments(p.oid), ') ', pg_get_function_result(p.oid))) collate "C")), '')
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = to_regnamespace('headrace') and lower(concat(p.proname, '(', pg_get_function_arguments(p.oid), ') ', pg_get_function_result(p.oid))) = any(array['add_limit_waiters(queue_id integer, counters integer[]) void', 'append(topic_name text, row_id uuid, row_count integer, row_body text, row_headers text, continues boolean, moment bigint, channel text) table(base_seq bigint, ts bigint, now bigint)', 'begin_claim(queue_id integer, queue_version integer, sign integer, selection integer, rules integer, checks_leases boolean, moment bigint, out word text, out clock bigint, out promoted bigint) record', 'bind_channels(queue_id integer, rule_version integer, channels integer[], homes integer[], bounds json) boolean', 'bounds_of(queue_id integer, channels integer[], rule_version integer) table(id integer, counted integer[], checked integer[], most bigint[], is_bound boolean)', 'channels_with_capacity(channels integer[], out open_ones integer[], out full_ones integer[]) record', 'claim_in_line(queue_id integer, queue_version integer, claim_token text, most integer, lease bigint, claimer text, keeps_counts boolean, sign integer, takes_any boolean, moment bigint, rules integer, is_tight boolean) table(answer text, next_due bigint, clock bigint, line text, items text, counted text)', 'claim_in_turn(queue_id integer, queue_version integer, claim_token text, most integer, lease bigint, claimer text, keeps_counts boolean, sign integer, quantum integer, is_strict boolean, selection integer, asked integer[], are_all boolean, takes_any boolean, moment bigint, rules integer, is_tight boolean, floor_turn bigint) table(answer text, next_due bigint, clock bigint, line text, first_turn bigint, items text, counted text)', 'claim_items(queue_id integer, queue_version integer, claim_token text, most integer, lease bigint, claimer text, keeps_counts boolean, sign integer, floor_rank integer, floor_position bigint, takes_any boolean, moment bigint, rules integer) table(answer text, next_due bigint, clock bigint, items text)', 'claim_records(proc_name text, claim_token text, most bigint, max_bytes bigint, known text, moment bigint) table(answer text, topic text, low bigint, high bigint, until bigint, id text, base_seq bigint, count integer, ts bigint, headers text, body text)', 'clock() bigint', 'complete_counted(target integer, queue_version integer, claim_tokens text[], items bigint[], keeps_counts boolean, receipt uuid, listener text, counted_by integer, counters integer[], numbers bigint[]) table(done text, woken text)', 'complete_items(target integer, queue_version integer, claim_tokens text[], items bigint[], keeps_counts boolean, receipt uuid) setof text', 'confirm_selection(inout word text, queue_id integer, givers integer[], is_short boolean, rules integer, is_tight boolean, takes_any boolean, moment bigint, has_delays boolean, is_any_delay boolean, full_ones integer[], is_passed_over boolean, out due bigint, out ids integer[], out numbers bigint[], out limits bigint[]) record', 'count_plain_items(counted integer[], checked integer[], most bigint[], number integer) void', 'counters_of(queue_id integer, channels integer[], rule_version integer, out word text, out ids integer[], out numbers bigint[], out limits bigint[]) record', 'decrement_counters(ids integer[], numbers bigint[]) integer[]', 'document_rows(homes text, ranks text, payloads text, formats text, subjects text, priorities text, dues text, delays text, headerses text, overrideses text, moment bigint) table(home bigint, rank integer, payload text, format smallint, subject text, priority integer, due bigint, headers text, overrides text, n bigint)', 'empty_channels(channels integer[], has_dead_rows boolean) integer[]', 'finish_push(queue_id integer, queue_name text, receipt uuid, moment bigint, done text, planned bigint, pending bigint, listener text) boolean', 'free_slots(checked integer[], most bigint[]) bigint', 'has_expired_leases(queue_id integer, moment bigint) boolean', 'has_unsorted(queue_id integer, selection_id integer) boolean', 'idle_channels(channels integer[]) integer[]', 'increment_counters(ids integer[], numbers bigint[], limits bigint[]) boolean', 'item_rows(queues text, ranks text, payloads text, formats text, subjects text, priorities text, states text, positions text, next_executions text, waiting_sinces text, created_ats text, headerses text, overrideses text, channels text, key_valueses text) table(queue integer, rank integer, payload text, format smallint, subject text, priority integer, state smallint, "position" bigint, next_execution bigint, waiting_since bigint, created_at bigint, headers text, overrides text, channel integer, key_values text, n bigint)', 'lock_channel_counters(channels integer[], has_others boolean) integer[]', 'lock_channels(queue_id integer, forms text[], moment bigint, out channels integer[], out has_replaceable boolean) record', 'lock_counters(counters integer[]) text', 'lock_limits_exclusive() void', 'lock_limits_shared() void', 'lock_queue_exclusive(queue_id integer) void', 'lock_queue_shared(queue_id integer) void', 'mark_claimed(spots tid[], claim_token text, claimer text, moment bigint, lease bigint) text', 'next_due(queue_id integer, moment bigint, has_delays boolean, out lease_end bigint, out due bigint) record', 'number_batches() trigger', 'plan_by_keys() text', 'promote_items(queue_id integer, sign integer, moment bigint) bigint', 'promote_plain_items(queue_id integer, sign integer, moment bigint) bigint', 'push_item(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text, item_rank integer, item_payload text, item_format smallint, item_subject text, item_priority integer, due bigint, delay bigint, item_headers text, item_overrides text) table(done text, is_under_way boolean)', 'push_items(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text, ranks text, payloads text, formats text, subjects text, priorities text, dues text, delays text, headerses text, overrideses text) table(done text, is_under_way boolean)', 'push_payloads(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text, payloads text) table(done text, is_under_way boolean)', 'push_to_channels(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, listener text, names text, homes text, ranks text, payloads text, formats text, subjects text, priorities text, dues text, delays text, headerses text, overrideses text) table(done text, is_under_way boolean)', 'renew_turns(givers integer[], ranks integer[], positions bigint[], emptied integer[], has_floor boolean, moment bigint) void', 'require_flush() text', 'retire_channels(channels integer[]) void', 'select_above_floor(channels integer[], share integer, wanted integer, moment bigint, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[]) record', 'select_counted(channels integer[], share integer, wanted integer, but bigint[], out items bigint[], out spots tid[], out givers integer[], out full_ones integer[]) record', 'select_from_channels(channels integer[], share integer, wanted integer, but bigint[], out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[]) record', 'select_in_line(queue_id integer, wanted integer, rule_version integer, out items bigint[], out spots tid[], out givers integer[], out full_ones integer[], out unbound integer[], out is_passed_over boolean) record', 'select_in_turn(inout word text, queue_id integer, wanted integer, share integer, is_strict boolean, selection integer, asked integer[], has_delays boolean, moment bigint, rules integer, is_tight boolean, floor_turn bigint, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[], out visited integer[], out candidates integer[], out seen bigint, out first_seen bigint, out full_ones integer[], out is_passed_over boolean) record', 'select_plain_above_floor(queue_id integer, wanted integer, floor_rank integer, floor_position bigint) tid[]', 'select_rest(gave integer[], quantum integer, wanted integer, chosen bigint[], is_tight boolean, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[], out full_ones integer[]) record', 'select_tight(channels integer[], share integer, wanted integer, has_others boolean, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[], out visited integer[], out full_ones integer[], out is_passed_over boolean) record', 'single_counter(channels integer[], rule_version integer, out counter integer, out most bigint) record', 'subject_items(queue_id integer, subjects text[]) table(id bigint, subject text)', 'token_of(queue_id integer, item_id bigint) text', 'unbound_channels(queue_id integer, selection_id integer, channels integer[], seen bigint, rule_version integer) text', 'uncount_items(queue_id integer, channels integer[], rule_version integer) integer[]', 'undelayed_channels(channels integer[], moment bigint) integer[]', 'wait_on_full_counters(queue_id integer, checked integer[], most bigint[]) void'])),
       '0.1.0', array['add_limit_waiters(queue_id integer, counters integer[]) void', 'append(topic_name text, row_id uuid, row_count integer, row_body text, row_headers text, continues boolean, moment bigint, channel text) table(base_seq bigint, ts bigint, now bigint)', 'begin_claim(queue_id integer, queue_version integer, sign integer, selection integer, rules integer, checks_leases boolean, moment bigint, out word text, out clock bigint, out promoted bigint) record', 'bind_channels(queue_id integer, rule_version integer, channels integer[], homes integer[], bounds json) boolean', 'bounds_of(queue_id integer, channels integer[], rule_version integer) table(id integer, counted integer[], checked integer[], most bigint[], is_bound boolean)', 'channels_with_capacity(channels integer[], out open_ones integer[], out full_ones integer[]) record', 'claim_in_line(queue_id integer, queue_version integer, claim_token text, most integer, lease bigint, claimer text, keeps_counts boolean, sign integer, takes_any boolean, moment bigint, rules integer, is_tight boolean) table(answer text, next_due bigint, clock bigint, line text, items text, counted text)', 'claim_in_turn(queue_id integer, queue_version integer, claim_token text, most integer, lease bigint, claimer text, keeps_counts boolean, sign integer, quantum integer, is_strict boolean, selection integer, asked integer[], are_all boolean, takes_any boolean, moment bigint, rules integer, is_tight boolean, floor_turn bigint) table(answer text, next_due bigint, clock bigint, line text, first_turn bigint, items text, counted text)', 'claim_items(queue_id integer, queue_version integer, claim_token text, most integer, lease bigint, claimer text, keeps_counts boolean, sign integer, floor_rank integer, floor_position bigint, takes_any boolean, moment bigint, rules integer) table(answer text, next_due bigint, clock bigint, items text)', 'claim_records(proc_name text, claim_token text, most bigint, max_bytes bigint, known text, moment bigint) table(answer text, topic text, low bigint, high bigint, until bigint, id text, base_seq bigint, count integer, ts bigint, headers text, body text)', 'clock() bigint', 'complete_counted(target integer, queue_version integer, claim_tokens text[], items bigint[], keeps_counts boolean, receipt uuid, listener text, counted_by integer, counters integer[], numbers bigint[]) table(done text, woken text)', 'complete_items(target integer, queue_version integer, claim_tokens text[], items bigint[], keeps_counts boolean, receipt uuid) setof text', 'confirm_selection(inout word text, queue_id integer, givers integer[], is_short boolean, rules integer, is_tight boolean, takes_any boolean, moment bigint, has_delays boolean, is_any_delay boolean, full_ones integer[], is_passed_over boolean, out due bigint, out ids integer[], out numbers bigint[], out limits bigint[]) record', 'count_plain_items(counted integer[], checked integer[], most bigint[], number integer) void', 'counters_of(queue_id integer, channels integer[], rule_version integer, out word text, out ids integer[], out numbers bigint[], out limits bigint[]) record', 'decrement_counters(ids integer[], numbers bigint[]) integer[]', 'document_rows(homes text, ranks text, payloads text, formats text, subjects text, priorities text, dues text, delays text, headerses text, overrideses text, moment bigint) table(home bigint, rank integer, payload text, format smallint, subject text, priority integer, due bigint, headers text, overrides text, n bigint)', 'empty_channels(channels integer[], has_dead_rows boolean) integer[]', 'finish_push(queue_id integer, queue_name text, receipt uuid, moment bigint, done text, planned bigint, pending bigint, listener text) boolean', 'free_slots(checked integer[], most bigint[]) bigint', 'has_expired_leases(queue_id integer, moment bigint) boolean', 'has_unsorted(queue_id integer, selection_id integer) boolean', 'idle_channels(channels integer[]) integer[]', 'increment_counters(ids integer[], numbers bigint[], limits bigint[]) boolean', 'item_rows(queues text, ranks text, payloads text, formats text, subjects text, priorities text, states text, positions text, next_executions text, waiting_sinces text, created_ats text, headerses text, overrideses text, channels text, key_valueses text) table(queue integer, rank integer, payload text, format smallint, subject text, priority integer, state smallint, "position" bigint, next_execution bigint, waiting_since bigint, created_at bigint, headers text, overrides text, channel integer, key_values text, n bigint)', 'lock_channel_counters(channels integer[], has_others boolean) integer[]', 'lock_channels(queue_id integer, forms text[], moment bigint, out channels integer[], out has_replaceable boolean) record', 'lock_counters(counters integer[]) text', 'lock_limits_exclusive() void', 'lock_limits_shared() void', 'lock_queue_exclusive(queue_id integer) void', 'lock_queue_shared(queue_id integer) void', 'mark_claimed(spots tid[], claim_token text, claimer text, moment bigint, lease bigint) text', 'next_due(queue_id integer, moment bigint, has_delays boolean, out lease_end bigint, out due bigint) record', 'number_batches() trigger', 'plan_by_keys() text', 'promote_items(queue_id integer, sign integer, moment bigint) bigint', 'promote_plain_items(queue_id integer, sign integer, moment bigint) bigint', 'push_item(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text, item_rank integer, item_payload text, item_format smallint, item_subject text, item_priority integer, due bigint, delay bigint, item_headers text, item_overrides text) table(done text, is_under_way boolean)', 'push_items(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text, ranks text, payloads text, formats text, subjects text, priorities text, dues text, delays text, headerses text, overrideses text) table(done text, is_under_way boolean)', 'push_payloads(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text, payloads text) table(done text, is_under_way boolean)', 'push_to_channels(queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, listener text, names text, homes text, ranks text, payloads text, formats text, subjects text, priorities text, dues text, delays text, headerses text, overrideses text) table(done text, is_under_way boolean)', 'renew_turns(givers integer[], ranks integer[], positions bigint[], emptied integer[], has_floor boolean, moment bigint) void', 'require_flush() text', 'retire_channels(channels integer[]) void', 'select_above_floor(channels integer[], share integer, wanted integer, moment bigint, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[]) record', 'select_counted(channels integer[], share integer, wanted integer, but bigint[], out items bigint[], out spots tid[], out givers integer[], out full_ones integer[]) record', 'select_from_channels(channels integer[], share integer, wanted integer, but bigint[], out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[]) record', 'select_in_line(queue_id integer, wanted integer, rule_version integer, out items bigint[], out spots tid[], out givers integer[], out full_ones integer[], out unbound integer[], out is_passed_over boolean) record', 'select_in_turn(inout word text, queue_id integer, wanted integer, share integer, is_strict boolean, selection integer, asked integer[], has_delays boolean, moment bigint, rules integer, is_tight boolean, floor_turn bigint, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[], out visited integer[], out candidates integer[], out seen bigint, out first_seen bigint, out full_ones integer[], out is_passed_over boolean) record', 'select_plain_above_floor(queue_id integer, wanted integer, floor_rank integer, floor_position bigint) tid[]', 'select_rest(gave integer[], quantum integer, wanted integer, chosen bigint[], is_tight boolean, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[], out full_ones integer[]) record', 'select_tight(channels integer[], share integer, wanted integer, has_others boolean, out items bigint[], out spots tid[], out givers integer[], out ranks integer[], out positions bigint[], out visited integer[], out full_ones integer[], out is_passed_over boolean) record', 'single_counter(channels integer[], rule_version integer, out counter integer, out most bigint) record', 'subject_items(queue_id integer, subjects text[]) table(id bigint, subject text)', 'token_of(queue_id integer, item_id bigint) text', 'unbound_channels(queue_id integer, selection_id integer, channels integer[], seen bigint, rule_version integer) text', 'uncount_items(queue_id integer, channels integer[], rule_version integer) integer[]', 'undelayed_channels(channels integer[], moment bigint) integer[]', 'wait_on_full_counters(queue_id integer, checked integer[], most bigint[]) void']
on conflict (id) do update
set digest = excluded.digest, installed = excluded.installed, release = excluded.release,
    signatures = excluded.signatures, applied_at = now();

commit;
