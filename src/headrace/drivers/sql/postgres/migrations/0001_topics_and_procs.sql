-- Topics as rows of record batches, procs with their claims, and the table of keys
-- that may count only once.

-- The database's clock in milliseconds. Every statement that needs the time takes it as
-- a parameter, so that tests can set it, and asks here when the parameter is null.
create function headrace.clock() returns bigint
    language sql volatile parallel safe
    return (extract(epoch from clock_timestamp()) * 1000)::bigint;

-- One row per topic: its head. The row is locked while records are numbered, so that
-- numbers are dense and become visible in their own order. A row with next_seq = 0 is a
-- name that somebody mentioned; the topic exists from its first record on.
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
-- base_seq is null until the row is numbered; times is for rows merged from several
-- commits, stage for rows that are written before they are published.
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
-- A client makes the ids: a commit that is repeated, because its answer was lost, meets itself.
create unique index batch_id on headrace.batch (id);
create unique index batch_place on headrace.batch (topic, base_seq) where base_seq is not null;
create index batch_time on headrace.batch (topic, ts, base_seq) where base_seq is not null;
create index batch_unnumbered on headrace.batch (id) where base_seq is null;

-- Rows written inside a longer transaction are numbered when it commits, all of them at
-- once: to lock the heads any earlier would make every other writer wait for it, and two
-- such transactions deadlock. The rows that have no number and no stage, and that we can
-- see, are our own. A test sets the time by the parameter headrace.now.
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
create constraint trigger number_batches after insert on headrace.batch
    deferrable initially deferred
    for each row when (new.base_seq is null and new.stage is null)
    execute function headrace.number_batches();

-- A whole commit in one statement: number a row and store it at the end of its topic. Answers
-- nothing if there is no such topic. The clock is read when the head is locked. A row that
-- continues the one before it in the same commit has its time.
create function headrace.append(
    topic_name text, row_id uuid, row_count integer, row_body text, row_headers text,
    continues boolean, moment bigint, channel text
) returns table (base_seq bigint, ts bigint, now bigint) language plpgsql as $$
declare
    head record;
begin
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

-- lz4 is several times faster than the default, but a server may be built without it.
do $$
begin
    alter table headrace.batch alter column body set compression lz4;
exception when feature_not_supported or invalid_parameter_value then
    null;
end
$$;

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

-- Processes that wait for records. Who commits notifies only if there are any: a NOTIFY
-- makes all committing transactions of the database queue up.
create unlogged table headrace.waiter (
    id    uuid primary key,
    until bigint not null
);

-- Who does which chore, until when: maintenance is done by one process at a time.
create table headrace.lease (
    task   text primary key,
    holder text not null,
    until  bigint not null
);

-- What may count only once: a key in a scope, until a time, with what came of it.
create table headrace.once (
    scope   text not null,
    key     text not null,
    until   bigint not null,
    digest  text,
    outcome text,
    primary key (scope, key)
);
create index once_until on headrace.once (until);

create table headrace.proc (
    id                      integer generated always as identity primary key,
    name                    text collate "C" not null unique,
    topic                   integer not null references headrace.topic,
    origin                  text not null,
    cursor                  bigint,
    created_at              bigint not null,
    status                  text not null default 'active' check (status in ('active', 'disabled')),
    last_claimed_at         bigint not null default 0,
    last_acked_at           bigint not null default 0,
    last_claimed_range      text not null default '',
    last_acked_range        text not null default '',
    previous_claimed_range  text not null default '',
    reclaims                integer not null default 0,
    max_reclaims            integer not null,
    reclaim_timeout         bigint,
    on_max_reclaims_reached text not null,
    last_error              text,
    skipped                 text not null default '[]',
    isolate_to              bigint,
    last_acked_token        text,
    last_ack                text,
    ttl                     bigint,
    expires_at              bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index proc_topic on headrace.proc (topic);

-- The outstanding claim of a proc.
create table headrace.proc_claim (
    proc      integer primary key references headrace.proc on delete cascade,
    token     text not null,
    first_seq bigint not null,
    last_seq  bigint not null,
    deadline  bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A claim in one statement, where nothing is to be decided but what comes next: an active proc
-- without a claim and with nothing to skip. In all other cases it answers 'other', or nothing
-- if there is no such proc, and has done nothing. The body of the row that the reader has
-- known already is left out. Relaxed: a claim that is lost in a crash was never made.
create function headrace.claim_next(
    proc_name text, claim_token text, most bigint, max_bytes bigint, known text, moment bigint
) returns table (
    state text, topic text, low bigint, high bigint, until bigint,
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
        state := 'empty';
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
        state := 'other';
        return next;
        return;
    end if;
    perform set_config('synchronous_commit', 'off', true);
    moment := coalesce(moment, headrace.clock());
    state := 'claimed';
    topic := log.name;
    low := reader.cursor;
    high := least(low + most, log.next_seq) - 1;
    until := moment + reader.reclaim_timeout;
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
