-- Topics as rows of record batches, procs with their claims, and the table of keys
-- that may count only once.

-- One row per topic: its head. A row with next_seq = 0 is a name that somebody mentioned;
-- the topic exists from its first record on.
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
-- base_seq is null until the row is numbered; times is for rows merged from several
-- commits, stage for rows that are written before they are published.
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

-- Who does which chore, until when: maintenance is done by one process at a time.
create table headrace_lease (
    task   text primary key,
    holder text not null,
    until  integer not null
);

-- What may count only once: a key in a scope, until a time, with what came of it.
create table headrace_once (
    scope   text not null,
    key     text not null,
    until   integer not null,
    digest  text,
    outcome text,
    primary key (scope, key)
);
create index headrace_once_until on headrace_once (until);

create table headrace_proc (
    id                      integer primary key,
    name                    text not null unique,
    topic                   integer not null,
    origin                  text not null,
    cursor                  integer,
    created_at              integer not null,
    status                  text not null default 'active' check (status in ('active', 'disabled')),
    last_claimed_at         integer not null default 0,
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
    expires_at              integer
);
create index headrace_proc_topic on headrace_proc (topic);

-- The outstanding claim of a proc. Foreign keys are off on connections that are not ours,
-- so the proc's own operations remove it.
create table headrace_proc_claim (
    proc      integer primary key,
    token     text not null,
    first_seq integer not null,
    last_seq  integer not null,
    deadline  integer
);
