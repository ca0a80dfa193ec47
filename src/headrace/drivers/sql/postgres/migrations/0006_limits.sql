-- Limits: rules, and the totals that they look at.

-- The version grows with each change of a rule.
create table headrace.limit_version (
    id      integer primary key check (id = 1),
    version integer not null
);
insert into headrace.limit_version (id, version) values (1, 0);

-- queue is * for a rule about all of them; measure is running, enqueued, or rate/<ms>;
-- key_values the form of the pattern.
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

-- Totals. Every transaction that hands out or ends something counted changes them with it, in the
-- order of their ids. The name is queue|measure|key_values, by which it is found. marks says when things happened, for a rate. idle_at when none of them counts any more. is_awaited: somebody found no
-- room here, see limit_wait. No index on what changes, and room on each page for new versions.
create table headrace.bucket (
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
create unique index bucket_name on headrace.bucket (name);
create index bucket_measure on headrace.bucket (queue, measure);

-- Queues in which something waits for room in a bucket.
create table headrace.limit_wait (
    bucket integer not null,
    queue  integer not null,
    primary key (bucket, queue)
);

-- The version of the rules that may concern a queue's items; 0 if there is none.
alter table headrace.queue add column limits integer not null default 0;

-- The gate of all rules. Who counts in a transaction that may last, makes a queue, or gives one its
-- first channel enters; who changes rules closes it, and the gates of the queues.
create function headrace.enter_limits() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1214603636, 0);
end
$$;

create function headrace.close_limits() returns void language plpgsql
set lock_timeout = '1s' as $$
begin
    perform pg_advisory_xact_lock(1214603636, 0);
end
$$;
