-- Statements on limits: rules and their counters.

-- name: lock_limits_shared
-- Lock the rules against changes until the transaction ends.
select headrace.lock_limits_shared() as locked;

-- name: lock_limits_exclusive
-- Lock the rules exclusively until the transaction ends: no other transaction counts by them.
select headrace.lock_limits_exclusive() as locked;

-- name: lock_queues_exclusive
-- Lock some queues exclusively until the transaction ends.
select headrace.lock_queue_exclusive(q.id) as locked from unnest(:queues::integer[]) as q (id);

-- name: next_limit_version
-- Rules change.
update headrace.limit_version set version = version + 1 where id = 1 returning version;

-- name: limit_version
-- The version of the rules.
select version from headrace.limit_version;

-- name: list_limits
-- Rules by id, each with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.max_used,
       o.id as override, o.key_values as override_values, o.max_used as override_max_used
from (select * from headrace.limit_rule
      where id > :after order by id limit :limit) r
left join headrace.limit_override o on o.rule = r.id
order by r.id, o.id;

-- name: find_limit
-- A rule by id, with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.max_used,
       o.id as override, o.key_values as override_values, o.max_used as override_max_used
from headrace.limit_rule r
left join headrace.limit_override o on o.rule = r.id
where r.id = :id
order by o.id;

-- name: remove_limits
-- Remove rules.
delete from headrace.limit_rule where id = any(:ids::text[]);

-- name: remove_overrides
-- Remove the overrides of rules.
delete from headrace.limit_override where rule = any(:rules::text[]);

-- name: add_limits
-- Add rules.
insert into headrace.limit_rule (id, queue, measure, key_values, max_used)
select r.id, r.queue, r.measure, r.key_values, r.max_used::bigint
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:measure, E'\x1e', E'\x15'),
    string_to_table(:key_values, E'\x1e', E'\x15'),
    string_to_table(:max_used, E'\x1e', E'\x15')
) as r (id, queue, measure, key_values, max_used);

-- name: add_overrides
-- Add overrides.
insert into headrace.limit_override (rule, id, key_values, max_used)
select r.rule, r.id, r.key_values, r.max_used::bigint
from rows from (
    string_to_table(:rule, E'\x1e', E'\x15'),
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:key_values, E'\x1e', E'\x15'),
    string_to_table(:max_used, E'\x1e', E'\x15')
) as r (rule, id, key_values, max_used);

-- name: limited_queues
-- Queues by name, or all, locked against changes.
select id, name, has_channels, is_live from headrace.queue
where :is_all or name = any(:names::text[])
order by id
for no key update;

-- name: queue_names
-- Queues by name, or all.
select id, name from headrace.queue where :is_all or name = any(:names::text[]) order by id;

-- name: set_limit_versions
-- Say by which rules the items of queues count from now on.
update headrace.queue q
set limit_version = r.limit_version::integer, version = q.version + case when q.is_live then 1 else 0 end
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:limit_version, E'\x1e', E'\x15')
) as r (id, limit_version)
where q.id = r.id::integer;

-- name: count_live
-- How many live items some queues have, by channel.
select i.queue, i.key_values, count(*) as count
from headrace.item i
where i.queue = any(:queues::integer[])
group by i.queue, i.key_values;

-- name: count_running
-- How many items of some queues are in flight, by channel.
select i.queue, i.key_values, count(*) as count
from headrace.item i
where i.queue = any(:queues::integer[]) and i.state = 2
group by i.queue, i.key_values;

-- name: list_live
-- Live items of some queues by id.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace.item i join headrace.queue q on q.id = i.queue
where i.queue = any(:queues::integer[]) and i.id > :after
order by i.id
limit :limit;

-- name: list_running
-- Items of some queues that are in flight, by id. A sum, so that they are found among those in flight:
-- in the order of ids everything that waits would be read.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace.item i join headrace.queue q on q.id = i.queue
where i.queue = any(:queues::integer[]) and i.state = 2 and i.id + 0 > :after
order by i.id + 0
limit :limit;

-- name: reset_limit_counters
-- Reset some counters before they are counted again.
update headrace.limit_counter set used = 0 where queue = :queue and measure = :measure and used <> 0;

-- name: set_limit_counters
-- Write counters as they were counted again.
insert into headrace.limit_counter (name, queue, measure, used)
select r.name, r.queue, r.measure, r.used::bigint
from rows from (
    string_to_table(:name, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:measure, E'\x1e', E'\x15'),
    string_to_table(:used, E'\x1e', E'\x15')
) as r (name, queue, measure, used)
on conflict (name) do update set used = excluded.used;

-- name: add_limit_counters
-- Create counters that do not exist yet. A conflict would wait for the transaction that changes the row.
insert into headrace.limit_counter (name, queue, measure)
select r.name, r.queue, r.measure
from rows from (
    string_to_table(:name, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:measure, E'\x1e', E'\x15')
) as r (name, queue, measure)
where not exists (select from headrace.limit_counter c where c.name = r.name)
order by r.name collate "C"
on conflict (name) do nothing;

-- name: read_limit_counters
-- Counters by name.
select id, name, used, marks from headrace.limit_counter where name = any(:names::text[]);

-- name: list_limit_counters
-- The names of the counters of a queue by a measure.
select name from headrace.limit_counter where queue = :queue and measure = :measure;

-- name: lock_limit_counters
-- Counters by name, locked against changes.
select id, name, used, marks from headrace.limit_counter where name = any(:names::text[])
order by id
for no key update;

-- name: try_lock_limit_counters
-- The same without those that another transaction has locked.
select id, name, used, marks from headrace.limit_counter where name = any(:names::text[])
order by id
for no key update skip locked;

-- name: change_limit_counters
-- Change counters. Returns their values, and which have waiters and were decremented.
with locked as materialized (
    select c.id, r.change::bigint as change
    from rows from (
        string_to_table(:name, E'\x1e', E'\x15'),
        string_to_table(:change, E'\x1e', E'\x15')
    ) as r (name, change)
    join headrace.limit_counter c
        on c.name = r.name and c.name = any(string_to_array(:name, E'\x1e'))
    order by c.id
    for no key update of c
)
update headrace.limit_counter c set used = c.used + l.change
from locked l where c.id = l.id
returning c.id, c.name, c.used, c.is_awaited and l.change < 0 as is_awaited;

-- name: mark_limit_counters
-- Write the counters of rates, with their marks.
update headrace.limit_counter c
set used = r.used::bigint, marks = r.marks, idle_at = r.idle_at::bigint
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:used, E'\x1e', E'\x15'),
    string_to_table(:marks, E'\x1e', E'\x15'),
    string_to_table(:idle_at, E'\x1e', E'\x15')
) as r (id, used, marks, idle_at)
where c.id = r.id::integer and c.id = any(string_to_array(:id, E'\x1e')::integer[]);

-- name: register_limit_waiter
-- Register a queue as a waiter on locked counters.
insert into headrace.limit_waiter (counter, queue)
select c.id, :queue from unnest(:counters::integer[]) as c (id)
on conflict (counter, queue) do nothing;

-- name: await_limit_counters
-- Mark counters that have waiters.
update headrace.limit_counter set is_awaited = true
where id = any(:counters::integer[]) and not is_awaited;

-- name: remove_limit_waiters
-- Remove the waiters of counters that have free slots: their queues, * for a waiter without one.
delete from headrace.limit_waiter w
where w.counter = any(:counters::integer[])
returning coalesce((select q.name from headrace.queue q where q.id = w.queue), '*') as name;

-- name: unawait_limit_counters
-- Mark counters that have no waiters.
update headrace.limit_counter set is_awaited = false where id = any(:counters::integer[]);

-- name: drop_limit_counters
-- Delete counters of queues that are zero and have no waiters.
delete from headrace.limit_counter where id = any(array(
    select id from headrace.limit_counter
    where queue = any(:queues::text[]) and not is_awaited
      and (used = 0 and marks is null or idle_at <= :now)
    limit :limit
    for update skip locked));
