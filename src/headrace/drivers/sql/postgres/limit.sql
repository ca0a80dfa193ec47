-- Statements on limits: rules, and the totals that they look at.

-- name: enter_limits
-- See to it that no rule changes until the transaction ends.
select headrace.enter_limits() as entered;

-- name: overdue
-- Whether a queue has items whose lease is over, and whether anybody has such counters. There are
-- no files here. Asked by the first of each: for any of them all might be read.
select coalesce((select min(lease_until) from headrace.item
                 where queue = :queue and state = 2) <= :now, false) as leases,
       coalesce((select min(until) from headrace.counter) <= :now, false) as counters,
       false as files;

-- name: close_limits
-- Wait until nobody counts by the present rules, and keep everybody out until the transaction ends.
select headrace.close_limits() as closed;

-- name: close_queues
-- Wait until nobody works on some queues, and keep everybody out until the transaction ends.
select headrace.close_queue(q.id) as closed from unnest(:queues::integer[]) as q (id);

-- name: next_limit_version
-- Rules change.
update headrace.limit_version set version = version + 1 where id = 1 returning version;

-- name: limit_version
-- The version of the rules.
select version from headrace.limit_version;

-- name: list_limits
-- Rules by id, each with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.most,
       o.id as override, o.key_values as override_values, o.most as override_most
from (select * from headrace.limit_rule
      where id > :after order by id limit :limit) r
left join headrace.limit_override o on o.rule = r.id
order by r.id, o.id;

-- name: find_limit
-- A rule by id, with its overrides.
select r.id, r.queue, r.measure, r.key_values, r.most,
       o.id as override, o.key_values as override_values, o.most as override_most
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
insert into headrace.limit_rule (id, queue, measure, key_values, most)
select r.id, r.queue, r.measure, r.key_values, r.most::bigint
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:measure, E'\x1e', E'\x15'),
    string_to_table(:key_values, E'\x1e', E'\x15'),
    string_to_table(:most, E'\x1e', E'\x15')
) as r (id, queue, measure, key_values, most);

-- name: add_overrides
-- Add overrides.
insert into headrace.limit_override (rule, id, key_values, most)
select r.rule, r.id, r.key_values, r.most::bigint
from rows from (
    string_to_table(:rule, E'\x1e', E'\x15'),
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:key_values, E'\x1e', E'\x15'),
    string_to_table(:most, E'\x1e', E'\x15')
) as r (rule, id, key_values, most);

-- name: limited_queues
-- Queues by name, or all, which nobody else changes meanwhile.
select id, name, has_channels, is_live from headrace.queue
where :is_all or name = any(:names::text[])
order by id
for no key update;

-- name: queue_names
-- Queues by name, or all.
select id, name from headrace.queue where :is_all or name = any(:names::text[]) order by id;

-- name: set_queue_limits
-- Say by which rules the items of queues count from now on.
update headrace.queue q
set limits = r.limits::integer, version = q.version + case when q.is_live then 1 else 0 end
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:limits, E'\x1e', E'\x15')
) as r (id, limits)
where q.id = r.id::integer;

-- name: count_held
-- How many items of some queues there are, by channel.
select i.queue, i.key_values, count(*) as count
from headrace.item i
where i.queue = any(:queues::integer[])
group by i.queue, i.key_values;

-- name: count_running
-- How many items of some queues are out, by channel.
select i.queue, i.key_values, count(*) as count
from headrace.item i
where i.queue = any(:queues::integer[]) and i.state = 2
group by i.queue, i.key_values;

-- name: list_held
-- Items of some queues by id.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace.item i join headrace.queue q on q.id = i.queue
where i.queue = any(:queues::integer[]) and i.id > :after
order by i.id
limit :limit;

-- name: list_running
-- Items of some queues that are out, by id. A sum, so that they are found among those that are out:
-- in the order of ids everything that waits would be read.
select i.id, q.name as queue, i.key_values, i.state, i.worker, i.claimed_at
from headrace.item i join headrace.queue q on q.id = i.queue
where i.queue = any(:queues::integer[]) and i.state = 2 and i.id + 0 > :after
order by i.id + 0
limit :limit;

-- name: clear_buckets
-- Nothing counts in some totals, until they are counted anew.
update headrace.bucket set used = 0 where queue = :queue and measure = :measure and used <> 0;

-- name: set_buckets
-- Totals as they were counted.
insert into headrace.bucket (name, queue, measure, used)
select r.name, r.queue, r.measure, r.used::bigint
from rows from (
    string_to_table(:name, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:measure, E'\x1e', E'\x15'),
    string_to_table(:used, E'\x1e', E'\x15')
) as r (name, queue, measure, used)
on conflict (name) do update set used = excluded.used;

-- name: add_buckets
-- Totals that are not there yet. To try and find one there would be to wait for whoever changes it.
insert into headrace.bucket (name, queue, measure)
select r.name, r.queue, r.measure
from rows from (
    string_to_table(:name, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:measure, E'\x1e', E'\x15')
) as r (name, queue, measure)
where not exists (select from headrace.bucket b where b.name = r.name)
order by r.name collate "C"
on conflict (name) do nothing;

-- name: look_at_buckets
-- Totals by name.
select id, name, used, marks from headrace.bucket where name = any(:names::text[]);

-- name: lock_buckets
-- Totals by name, which nobody else changes meanwhile.
select id, name, used, marks from headrace.bucket where name = any(:names::text[])
order by id
for no key update;

-- name: lock_free_buckets
-- The same without those that somebody else has locked.
select id, name, used, marks from headrace.bucket where name = any(:names::text[])
order by id
for no key update skip locked;

-- name: change_buckets
-- Totals grow and shrink; which of them somebody waits for that shrank.
with locked as materialized (
    select b.id, r.change::bigint as change
    from rows from (
        string_to_table(:name, E'\x1e', E'\x15'),
        string_to_table(:change, E'\x1e', E'\x15')
    ) as r (name, change)
    join headrace.bucket b
        on b.name = r.name and b.name = any(string_to_array(:name, E'\x1e'))
    order by b.id
    for no key update of b
)
update headrace.bucket b set used = b.used + l.change
from locked l where b.id = l.id
returning b.id, b.is_awaited and l.change < 0 as is_awaited;

-- name: mark_buckets
-- Totals of rates, and when it happened.
update headrace.bucket b
set used = r.used::bigint, marks = r.marks, idle_at = r.idle_at::bigint
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:used, E'\x1e', E'\x15'),
    string_to_table(:marks, E'\x1e', E'\x15'),
    string_to_table(:idle_at, E'\x1e', E'\x15')
) as r (id, used, marks, idle_at)
where b.id = r.id::integer and b.id = any(string_to_array(:id, E'\x1e')::integer[]);

-- name: add_waits
-- A queue waits for room in locked totals.
insert into headrace.limit_wait (bucket, queue)
select b.id, :queue from unnest(:buckets::integer[]) as b (id)
on conflict (bucket, queue) do nothing;

-- name: await_buckets
-- Remember it with the totals.
update headrace.bucket set is_awaited = true
where id = any(:buckets::integer[]) and not is_awaited;

-- name: end_waits
-- There is room in totals; the queues that wait for it, and * if somebody does without one.
delete from headrace.limit_wait w
where w.bucket = any(:buckets::integer[])
returning coalesce((select q.name from headrace.queue q where q.id = w.queue), '*') as name;

-- name: unawait_buckets
-- Nobody waits for them any more.
update headrace.bucket set is_awaited = false where id = any(:buckets::integer[]);

-- name: drop_buckets
-- Forget totals of queues that nothing counts in, and nobody waits for.
delete from headrace.bucket where id = any(array(
    select id from headrace.bucket
    where queue = any(:queues::text[]) and not is_awaited
      and (used = 0 and marks is null or idle_at <= :now)
    limit :limit
    for update skip locked));
