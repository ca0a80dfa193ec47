-- Limits: rules, and the totals that they look at.

-- The version grows with each change of a rule.
create table headrace_limit_version (
    id      integer primary key check (id = 1),
    version integer not null
);
insert into headrace_limit_version (id, version) values (1, 0);

-- queue is * for a rule about all of them; measure is running, enqueued, or rate/<ms>;
-- key_values the form of the pattern.
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

-- Totals. Every transaction that hands out or ends something counted changes them with it. The name
-- is queue|measure|key_values, by which it is found. marks says when things happened, for a rate.
-- idle_at when none of them counts any more. is_awaited: somebody found no room here, see limit_wait.
create table headrace_bucket (
    id         integer primary key autoincrement,
    name       text not null,
    queue      text not null,
    measure    text not null,
    used       integer not null default 0,
    marks      text,
    idle_at    integer,
    is_awaited integer not null default 0
);
create unique index headrace_bucket_name on headrace_bucket (name);
create index headrace_bucket_measure on headrace_bucket (queue, measure);

-- Queues in which something waits for room in a bucket.
create table headrace_limit_wait (
    bucket integer not null,
    queue  integer not null,
    primary key (bucket, queue)
) without rowid;

-- Of a queue's channels, those that a total (bucket, 0 for none) holds back at a limit (most) take
-- their turns in the lane with the number of the file below zero.
create table headrace_limit_file (
    id     integer primary key autoincrement,
    queue  integer not null,
    bucket integer not null,
    most   integer not null
);
create unique index headrace_limit_file_total on headrace_limit_file (queue, bucket, most);

-- The version of the rules that may concern a queue's items; 0 if there is none.
alter table headrace_queue add column limits integer not null default 0;
