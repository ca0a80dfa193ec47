-- Statements on channels.

-- name: mark_channels
-- Record that a queue has channels: claims use another path from now on, and rules apply. An earlier
-- step of the same push may have done so.
update headrace_queue
set has_channels = 1, version = version + (not has_channels),
    limit_version = case when has_channels then limit_version else
                 coalesce((select v.version from headrace_limit_version v
                           where exists (select 1 from headrace_limit_rule r
                                         where r.queue in ('*', headrace_queue.name))), 0) end
where id = :queue
returning limit_version;

-- name: lock_channels_shared
-- Channels by name. They cannot be removed before the transaction ends.
select id, key_values, has_updateable from headrace_channel
where queue = :queue and key_values in (select value from json_each(:names));

-- name: mark_updateable
-- Remember that channels have items that give their place to newer ones.
update headrace_channel set has_updateable = 1
where id in (select value from json_each(:channels)) and not has_updateable;

-- name: add_channels
-- Create channels that do not exist.
insert into headrace_channel (queue, key_values, created_at)
select :queue, value, :at from json_each(:names) where true order by value
on conflict (queue, key_values) do nothing;

-- name: add_turns
-- Add channels to the ready ones.
insert into headrace_ready_channel (channel, queue, lane, turn)
values (:channel, :queue, (select lane from headrace_channel where id = :channel), :turn)
on conflict (channel) do nothing;

-- name: empty_channels
-- Channels by name that have nothing in line, locked against pushes.
select id from headrace_channel c
where c.queue = :queue and c.key_values in (select value from json_each(:names))
  and not exists (select 1 from headrace_item i
                  where i.channel = c.id and i.channel <> 0 and i.state = 1);

-- name: emptied_channels
-- The same by number.
select json_each.value as id from json_each(:channels)
where not exists (select 1 from headrace_item i
                  where i.channel = json_each.value and i.channel <> 0 and i.state = 1);

-- name: drop_turns
-- Remove channels that have nothing in line from the ready ones.
delete from headrace_ready_channel
where channel in (select value from json_each(:channels))
  and not exists (select 1 from headrace_item i
                  where i.channel = headrace_ready_channel.channel and i.channel <> 0 and i.state = 1);

-- name: next_channels
-- The channels of a lane whose turn is next.
select r.channel, r.turn, c.key_values
from headrace_ready_channel r join headrace_channel c on c.id = r.channel
where r.queue = :queue and r.lane = :lane and r.turn > :after
order by r.turn
limit :limit;

-- name: move_turns
-- Give channels a new turn.
update headrace_ready_channel set turn = :turn where channel = :channel;

-- name: lock_turns
-- Channels, locked against other claims.
select channel from headrace_ready_channel where channel in (select value from json_each(:channels));

-- name: blocked_channels
-- Channels with an item in flight, or one that will return to its position.
select json_each.value as channel from json_each(:channels)
where exists (select 1 from headrace_item i
              where i.channel = json_each.value and i.channel <> 0 and i.state = 2)
   or exists (select 1 from headrace_item i
              where i.channel = json_each.value and i.channel <> 0 and i.state = 0
                and i.position is not null);

-- name: channel_items
-- The first items in line of some channels, so many of each, in the order of the channels.
select json_each.key as turn, i.rank, i.id, i.payload, i.format, i.subject, i.priority, i.state,
       i.position, i.next_execution, i.waiting_since, i.created_at, i.attempts, i.crashes,
       i.iterations, i.last_iteration, i.headers, i.overrides, i.token, i.lease_until,
       i.claimed_at, i.worker, i.error, i.successor, i.key_values
from json_each(:channels) cross join headrace_item i
where i.id in (select f.id from headrace_item f
               where f.channel = json_each.value and f.channel <> 0 and f.state = 1
                 and f.id not in (select value from json_each(:but))
               order by f.rank, f.position limit :each)
order by json_each.key, i.rank, i.position
limit :limit;

-- name: last_in_line
-- The last items in line of some channels, where any item may have to give its place, and of
-- some for certain.
select i.id, i.payload, i.format, i.subject, i.priority, i.state, i.position, i.next_execution,
       i.waiting_since, i.created_at, i.attempts, i.crashes, i.iterations, i.last_iteration,
       i.headers, i.overrides, i.token, i.lease_until, i.claimed_at, i.worker, i.error,
       i.successor, i.key_values
from headrace_channel c cross join headrace_item i
where c.queue = :queue and c.key_values in (select value from json_each(:names))
  and (c.has_updateable or c.key_values in (select value from json_each(:certain)))
  and i.id = (select f.id from headrace_item f
              where f.channel = c.id and f.channel <> 0 and f.state = 1
              order by f.rank desc, f.position desc limit 1);

-- name: lock_pushes
-- Lock a queue with a capacity against other pushes, until the transaction ends.
select :queue as queue;

-- name: save_push
-- Set a savepoint, to undo a push that turns out to exceed a limit.
savepoint headrace_push;

-- name: undo_push
-- Undo all of a push since its savepoint.
rollback to savepoint headrace_push;

-- name: channel_sizes
-- How many live items some channels have.
select c.key_values, count(*) as size
from headrace_channel c join headrace_item i on i.channel = c.id and i.channel <> 0
where c.queue = :queue and c.key_values in (select value from json_each(:names))
group by c.key_values;

-- name: line_items
-- Items in line behind a place, without their content.
select id, channel, key_values, rank, position
from headrace_item
where queue = :queue and state = 1 and (rank, position) > (:rank, :position)
order by rank, position
limit :limit;

-- name: pending_items
-- Items by id, if they still stand in line.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where id in (select value from json_each(:ids)) and state = 1
order by rank, position;

-- name: rechannel_items
-- Move items to other channels.
update headrace_item set channel = :channel, key_values = :key_values where id = :id;

-- name: list_channels
-- Channels by name that have items: how many wait, and how many are in flight.
select c.id, c.key_values,
       (select count(*) from headrace_item i
        where i.channel = c.id and i.channel <> 0 and i.state in (0, 1)) as waiting,
       (select count(*) from headrace_item i
        where i.channel = c.id and i.channel <> 0 and i.state = 2) as active,
       (select h.until from headrace_channel_delay h
        where h.queue = c.queue and h.key_values = c.key_values and h.until > :now) as delayed_until
from headrace_channel c
where c.queue = :queue and c.key_values > :after
  and exists (select 1 from headrace_item i where i.channel = c.id and i.channel <> 0)
order by c.key_values
limit :limit;

-- name: channel_members
-- All live items of some channels, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where channel in (select value from json_each(:channels)) and channel <> 0
order by id;

-- name: lock_channels_exclusive
-- Lock channels against pushes.
select id from headrace_channel where id in (select value from json_each(:channels));

-- name: add_deleted_items
-- Store the claims on items that were deleted with their channel.
insert into headrace_deleted_item (item, queue, token, at) values (:item, :queue, :token, :at)
on conflict (item) do nothing;

-- name: find_deleted_items
-- Claimed items that were deleted with their channel, and their tokens.
select item, token from headrace_deleted_item
where queue = :queue and item in (select value from json_each(:items));

-- name: drop_deleted_items
-- Forget items that were deleted long ago.
delete from headrace_deleted_item where item in (
    select item from headrace_deleted_item where queue = :queue and at <= :at order by at, item limit :limit)
returning item;

-- name: idle_channels
-- Channels that no longer have items. Nothing is pushed to them meanwhile.
select c.id from headrace_channel c
where c.queue = :queue and c.created_at <= :at
  and not exists (select 1 from headrace_item i where i.channel = c.id and i.channel <> 0)
order by c.id
limit :limit;

-- name: drop_channels
-- Remove channels that have no items.
delete from headrace_channel
where id in (select value from json_each(:channels))
  and not exists (select 1 from headrace_item i
                  where i.channel = headrace_channel.id and i.channel <> 0);

-- name: remove_all_turns
-- Remove the turns of a queue's channels.
delete from headrace_ready_channel where queue = :queue;

-- name: remove_all_channels
-- Remove a queue's channels.
delete from headrace_channel where queue = :queue;

-- name: remove_all_deleted_items
-- Forget the deleted items of a queue's channels.
delete from headrace_deleted_item where queue = :queue;

-- name: delay_channel
-- Delay a channel until a time; a later end stays.
insert into headrace_channel_delay (queue, key_values, until) values (:queue, :key_values, :until)
on conflict (queue, key_values) do update
    set until = max(headrace_channel_delay.until, excluded.until)
returning until;

-- name: end_delay
-- End a channel's delay.
delete from headrace_channel_delay where queue = :queue and key_values = :key_values;

-- name: find_delay
-- Until when a channel is delayed, if it is.
select until from headrace_channel_delay
where queue = :queue and key_values = :key_values and until > :now;

-- name: delayed_channels
-- The channels of a queue that are delayed, and until when.
select key_values, until from headrace_channel_delay where queue = :queue and until > :now;

-- name: drop_delays
-- Delete delays that have ended.
delete from headrace_channel_delay where queue = :queue and until <= :now;

-- name: remove_all_delays
-- Delete all delays of a queue.
delete from headrace_channel_delay where queue = :queue;
