-- Statements on parked channels: those that wait for free slots of a counter.

-- name: open_parking_lanes
-- Parking lanes of a queue whose counter is below the limit, or gone.
select p.id, p.counter, p.max_used from headrace_parking_lane p
left join headrace_limit_counter n on n.id = p.counter
where p.queue = :queue and coalesce(n.used, 0) < p.max_used;

-- name: add_parking_lanes
-- Create parking lanes that do not exist yet.
insert into headrace_parking_lane (queue, counter, max_used) values (:queue, :counter, :max_used)
on conflict (queue, counter, max_used) do nothing;

-- name: park_channels
-- Move channels to parking lanes.
update headrace_ready_channel
set lane = -(select id from headrace_parking_lane
             where queue = :queue and counter = :counter and max_used = :max_used)
where channel = :channel;

-- name: unpark_channels
-- Return channels to their lanes.
update headrace_ready_channel
set lane = (select c.lane from headrace_channel c where c.id = headrace_ready_channel.channel)
where channel in (select value from json_each(:channels)) and lane < 0;

-- name: drop_parking_lanes
-- Remove parking lanes that are empty.
delete from headrace_parking_lane where id in (select value from json_each(:ids));

-- name: register_parked_waiter
-- Register a queue as a waiter on the counters of its parking lanes.
insert into headrace_limit_waiter (counter, queue)
select n.id, p.queue from headrace_parking_lane p join headrace_limit_counter n on n.id = p.counter
where p.queue = :queue and n.used >= p.max_used
on conflict (counter, queue) do nothing;

-- name: await_parked_counters
-- Mark counters that have waiters.
update headrace_limit_counter set is_awaited = true
where not is_awaited
  and id in (select n.id from headrace_parking_lane p join headrace_limit_counter n on n.id = p.counter
             where p.queue = :queue and n.used >= p.max_used);

-- name: unpark_queues
-- Return all channels of some queues to their lanes.
update headrace_ready_channel
set lane = (select c.lane from headrace_channel c where c.id = headrace_ready_channel.channel)
where queue in (select value from json_each(:queues)) and lane < 0;

-- name: remove_parking_lanes
-- Remove all parking lanes of some queues.
delete from headrace_parking_lane where queue in (select value from json_each(:queues));
