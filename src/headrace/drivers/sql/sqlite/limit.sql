-- Statements on limits: rules, and the totals that they look at.

-- name: enter_limits
-- See to it that no rule changes until the transaction ends: there is one writer at a time.
select 1 as entered;

-- name: overdue
-- Whether a queue has items whose lease is over, anybody such counters, and the queue files.
select exists (select 1 from headrace_item
               where queue = :queue and state = 2 and lease_until <= :now) as leases,
       exists (select 1 from headrace_counter where until <= :now) as counters,
       exists (select 1 from headrace_limit_file where queue = :queue) as files;

-- name: close_limits
-- Wait until nobody counts by the present rules.
select 1 as closed;

-- name: close_queues
-- Wait until nobody works on some queues.
select value as closed from json_each(:queues);

-- name: next_limit_version
-- Rules change.
update headrace_limit_version set version = version + 1 where id = 1 returning version;

-- name: limit_version
-- The version of the rules.
select version from headrace_limit_version;

-- name: list_limits
-- Rules by id, each with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.most,
       o.id as override, o.key_values as override_values, o.most as override_most
from (select * from headrace_limit_rule
      where id > :after order by id limit :limit) r
left join headrace_limit_override o on o.rule = r.id
order by r.id, o.id;

-- name: find_limit
-- A rule by id, with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.most,
       o.id as override, o.key_values as override_values, o.most as override_most
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
insert into headrace_limit_rule (id, queue, measure, key_values, most)
values (:id, :queue, :measure, :key_values, :most);

-- name: add_overrides
-- Add overrides.
insert into headrace_limit_override (rule, id, key_values, most)
values (:rule, :id, :key_values, :most);

-- name: limited_queues
-- Queues by name, or all.
select id, name, has_channels, is_live from headrace_queue
where :is_all or name in (select value from json_each(:names))
order by id;

-- name: queue_names
-- Queues by name, or all.
select id, name from headrace_queue where :is_all or name in (select value from json_each(:names)) order by id;

-- name: set_queue_limits
-- Say by which rules the items of queues count from now on.
update headrace_queue
set limits = :limits, version = version + case when is_live then 1 else 0 end
where id = :id;

-- name: count_held
-- How many items of some queues there are, by channel.
select queue, key_values, count(*) as count
from headrace_item
where queue in (select value from json_each(:queues))
group by queue, key_values;

-- name: count_running
-- How many items of some queues are out, by channel.
select queue, key_values, count(*) as count
from headrace_item
where queue in (select value from json_each(:queues)) and state = 2
group by queue, key_values;

-- name: list_held
-- Items of some queues by id.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace_item i join headrace_queue q on q.id = i.queue
where i.queue in (select value from json_each(:queues)) and i.id > :after
order by i.id
limit :limit;

-- name: list_running
-- Items of some queues that are out, by id.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace_item i join headrace_queue q on q.id = i.queue
where i.queue in (select value from json_each(:queues)) and i.state = 2 and i.id > :after
order by i.id
limit :limit;

-- name: clear_buckets
-- Nothing counts in some totals, until they are counted anew.
update headrace_bucket set used = 0 where queue = :queue and measure = :measure and used <> 0;

-- name: set_buckets
-- Totals as they were counted.
insert into headrace_bucket (name, queue, measure, used)
values (:name, :queue, :measure, :used)
on conflict (name) do update set used = excluded.used;

-- name: add_buckets
-- Totals that are not there yet.
insert into headrace_bucket (name, queue, measure)
values (:name, :queue, :measure)
on conflict (name) do nothing;

-- name: look_at_buckets
-- Totals by name.
select id, name, used, marks from headrace_bucket
where name in (select value from json_each(:names));

-- name: lock_buckets
-- Totals by name, which nobody else changes meanwhile.
select id, name, used, marks from headrace_bucket
where name in (select value from json_each(:names));

-- name: lock_free_buckets
-- The same without those that somebody else has locked: nobody has.
select id, name, used, marks from headrace_bucket
where name in (select value from json_each(:names));

-- name: change_buckets
-- Totals grow and shrink; which of them somebody waits for that shrank.
update headrace_bucket set used = used + :change where name = :name
returning id, is_awaited and :change < 0 as is_awaited;

-- name: mark_buckets
-- Totals of rates, and when it happened.
update headrace_bucket set used = :used, marks = :marks, idle_at = :idle_at where id = :id;

-- name: add_waits
-- A queue waits for room in totals.
insert into headrace_limit_wait (bucket, queue)
select value, :queue from json_each(:buckets) where true
on conflict (bucket, queue) do nothing;

-- name: await_buckets
-- Remember it with the totals.
update headrace_bucket set is_awaited = true
where id in (select value from json_each(:buckets)) and not is_awaited;

-- name: end_waits
-- There is room in totals; the queues that wait for it, and * if somebody does without one.
delete from headrace_limit_wait
where bucket in (select value from json_each(:buckets))
returning coalesce((select q.name from headrace_queue q where q.id = queue), '*') as name;

-- name: unawait_buckets
-- Nobody waits for them any more.
update headrace_bucket set is_awaited = false where id in (select value from json_each(:buckets));

-- name: drop_buckets
-- Forget totals of queues that nothing counts in, and nobody waits for.
delete from headrace_bucket where id in (
    select id from headrace_bucket
    where queue in (select value from json_each(:queues)) and not is_awaited
      and (used = 0 and marks is null or idle_at <= :now)
    limit :limit);
