-- Statements on limits: rules and their counters.

-- name: lock_limits_shared
-- Lock the rules against changes until the transaction ends: there is one writer at a time.
select 1 as locked;

-- name: lock_limits_exclusive
-- Lock the rules exclusively: the only writer has that lock.
select 1 as locked;

-- name: lock_queues_exclusive
-- Lock some queues exclusively: the only writer has that lock.
select value as locked from json_each(:queues);

-- name: next_limit_version
-- Rules change.
update headrace_limit_version set version = version + 1 where id = 1 returning version;

-- name: limit_version
-- The version of the rules.
select version from headrace_limit_version;

-- name: list_limits
-- Rules by id, each with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.max_used,
       o.id as override, o.key_values as override_values, o.max_used as override_max_used
from (select * from headrace_limit_rule
      where id > :after order by id limit :limit) r
left join headrace_limit_override o on o.rule = r.id
order by r.id, o.id;

-- name: find_limit
-- A rule by id, with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.max_used,
       o.id as override, o.key_values as override_values, o.max_used as override_max_used
from headrace_limit_rule r
left join headrace_limit_override o on o.rule = r.id
where r.id = :id
order by o.id;

-- name: remove_limits
-- Remove rules.
delete from headrace_limit_rule where id in (select value from json_each(:ids));

-- name: remove_overrides
-- Remove the overrides of rules.
delete from headrace_limit_override where rule in (select value from json_each(:rules));

-- name: add_limits
-- Add rules.
insert into headrace_limit_rule (id, queue, measure, key_values, max_used)
values (:id, :queue, :measure, :key_values, :max_used);

-- name: add_overrides
-- Add overrides.
insert into headrace_limit_override (rule, id, key_values, max_used)
values (:rule, :id, :key_values, :max_used);

-- name: limited_queues
-- Queues by name, or all.
select id, name, has_channels, is_live from headrace_queue
where :is_all or name in (select value from json_each(:names))
order by id;

-- name: queue_names
-- Queues by name, or all.
select id, name from headrace_queue where :is_all or name in (select value from json_each(:names)) order by id;

-- name: set_limit_versions
-- Say by which rules the items of queues count from now on.
update headrace_queue
set limit_version = :limit_version, version = version + case when is_live then 1 else 0 end
where id = :id;

-- name: count_live
-- How many live items some queues have, by channel.
select queue, key_values, count(*) as count
from headrace_item
where queue in (select value from json_each(:queues))
group by queue, key_values;

-- name: count_running
-- How many items of some queues are in flight, by channel.
select queue, key_values, count(*) as count
from headrace_item
where queue in (select value from json_each(:queues)) and state = 2
group by queue, key_values;

-- name: list_live
-- Live items of some queues by id.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace_item i join headrace_queue q on q.id = i.queue
where i.queue in (select value from json_each(:queues)) and i.id > :after
order by i.id
limit :limit;

-- name: list_running
-- Items of some queues that are in flight, by id.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace_item i join headrace_queue q on q.id = i.queue
where i.queue in (select value from json_each(:queues)) and i.state = 2 and i.id > :after
order by i.id
limit :limit;

-- name: reset_limit_counters
-- Reset some counters before they are counted again.
update headrace_limit_counter set used = 0 where queue = :queue and measure = :measure and used <> 0;

-- name: set_limit_counters
-- Write counters as they were counted again.
insert into headrace_limit_counter (name, queue, measure, used)
values (:name, :queue, :measure, :used)
on conflict (name) do update set used = excluded.used;

-- name: add_limit_counters
-- Create counters that do not exist yet.
insert into headrace_limit_counter (name, queue, measure)
values (:name, :queue, :measure)
on conflict (name) do nothing;

-- name: read_limit_counters
-- Counters by name.
select id, name, used, marks from headrace_limit_counter
where name in (select value from json_each(:names));

-- name: list_limit_counters
-- The names of the counters of a queue by a measure.
select name from headrace_limit_counter where queue = :queue and measure = :measure;

-- name: lock_limit_counters
-- Counters by name, locked against changes.
select id, name, used, marks from headrace_limit_counter
where name in (select value from json_each(:names));

-- name: try_lock_limit_counters
-- The same without those that another transaction has locked: there are none.
select id, name, used, marks from headrace_limit_counter
where name in (select value from json_each(:names));

-- name: change_limit_counters
-- Change counters. Returns their values, and which have waiters and were decremented.
update headrace_limit_counter set used = used + :change where name = :name
returning id, name, used, is_awaited and :change < 0 as is_awaited;

-- name: mark_limit_counters
-- Write the counters of rates, with their marks.
update headrace_limit_counter set used = :used, marks = :marks, idle_at = :idle_at where id = :id;

-- name: register_limit_waiter
-- Register a queue as a waiter on counters.
insert into headrace_limit_waiter (counter, queue)
select value, :queue from json_each(:counters) where true
on conflict (counter, queue) do nothing;

-- name: await_limit_counters
-- Mark counters that have waiters.
update headrace_limit_counter set is_awaited = true
where id in (select value from json_each(:counters)) and not is_awaited;

-- name: remove_limit_waiters
-- Remove the waiters of counters that have free slots: their queues, * for a waiter without one.
delete from headrace_limit_waiter
where counter in (select value from json_each(:counters))
returning coalesce((select q.name from headrace_queue q where q.id = queue), '*') as name;

-- name: unawait_limit_counters
-- Mark counters that have no waiters.
update headrace_limit_counter set is_awaited = false where id in (select value from json_each(:counters));

-- name: drop_limit_counters
-- Delete counters of queues that are zero and have no waiters.
delete from headrace_limit_counter where id in (
    select id from headrace_limit_counter
    where queue in (select value from json_each(:queues)) and not is_awaited
      and (used = 0 and marks is null or idle_at <= :now)
    limit :limit);
