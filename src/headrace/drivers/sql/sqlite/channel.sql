-- Statements on channels.

-- name: mark_channels
-- Remember that a queue has channels: claims go another way from now on, and rules apply.
update headrace_queue
set has_channels = 1, version = version + 1,
    limits = coalesce((select v.version from headrace_limit_version v
                       where exists (select 1 from headrace_limit_rule r
                                     where r.queue in ('*', headrace_queue.name))), 0)
where id = :queue and not has_channels
returning limits;

-- name: hold_channels
-- Channels by name, which stay until the end of the transaction.
select id, key_values, has_updateable from headrace_channel
where queue = :queue and key_values in (select value from json_each(:names));

-- name: mark_updateable
-- Remember that channels have items that give their place to newer ones.
update headrace_channel set has_updateable = 1
where id in (select value from json_each(:channels)) and not has_updateable;

-- name: add_channels
-- Make channels that are not there.
insert into headrace_channel (queue, key_values, created_at)
select :queue, value, :at from json_each(:names) where true order by value
on conflict (queue, key_values) do nothing;

-- name: add_turns
-- Let channels take turns that do not yet.
insert into headrace_ready (channel, queue, lane, turn)
values (:channel, :queue, (select lane from headrace_channel where id = :channel), :turn)
on conflict (channel) do nothing;

-- name: empty_channels
-- Channels by name that have nothing in line; nobody puts anything there meanwhile.
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
-- Let channels that have nothing in line take no turns any more.
delete from headrace_ready
where channel in (select value from json_each(:channels))
  and not exists (select 1 from headrace_item i
                  where i.channel = headrace_ready.channel and i.channel <> 0 and i.state = 1);

-- name: next_channels
-- The channels of a lane whose turn is next.
select r.channel, r.turn, c.key_values
from headrace_ready r join headrace_channel c on c.id = r.channel
where r.queue = :queue and r.lane = :lane and r.turn > :after
order by r.turn
limit :limit;

-- name: move_turns
-- It was their turn.
update headrace_ready set turn = :turn where channel = :channel;

-- name: lock_turns
-- Channels that nobody else takes from meanwhile.
select channel from headrace_ready where channel in (select value from json_each(:channels));

-- name: blocked_channels
-- Channels of which an item is out, or will return to its place.
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

-- name: push_alone
-- See to it that nobody else pushes to a queue whose items are counted, until the transaction ends.
select :queue as queue;

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
-- Items go to other channels.
update headrace_item set channel = :channel, key_values = :key_values where id = :id;

-- name: list_channels
-- Channels by name that have items: how many wait, and are out.
select c.id, c.key_values,
       (select count(*) from headrace_item i
        where i.channel = c.id and i.channel <> 0 and i.state in (0, 1)) as waiting,
       (select count(*) from headrace_item i
        where i.channel = c.id and i.channel <> 0 and i.state = 2) as active,
       (select h.until from headrace_channel_hold h
        where h.queue = c.queue and h.key_values = c.key_values and h.until > :now) as held_until
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

-- name: lock_channels
-- Channels that nothing is pushed to meanwhile.
select id from headrace_channel where id in (select value from json_each(:channels));

-- name: add_gone
-- Remember who had items that went with their channel.
insert into headrace_gone (item, queue, token, at) values (:item, :queue, :token, :at)
on conflict (item) do nothing;

-- name: find_gone
-- Items that went with their channel, and who had them.
select item, token from headrace_gone
where queue = :queue and item in (select value from json_each(:items));

-- name: drop_gone
-- Forget what went long ago.
delete from headrace_gone where item in (
    select item from headrace_gone where queue = :queue and at <= :at order by at, item limit :limit)
returning item;

-- name: idle_channels
-- Channels that are there no more: they have no items. Nothing is pushed to them meanwhile.
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
delete from headrace_ready where queue = :queue;

-- name: remove_all_channels
-- Remove a queue's channels.
delete from headrace_channel where queue = :queue;

-- name: remove_all_gone
-- Forget what went with channels of a queue.
delete from headrace_gone where queue = :queue;

-- name: hold_channel
-- Hold a channel until a time, or for longer.
insert into headrace_channel_hold (queue, key_values, until) values (:queue, :key_values, :until)
on conflict (queue, key_values) do update
    set until = max(headrace_channel_hold.until, excluded.until)
returning until;

-- name: end_hold
-- Hold a channel no longer.
delete from headrace_channel_hold where queue = :queue and key_values = :key_values;

-- name: find_hold
-- Until when a channel is held, if it is.
select until from headrace_channel_hold
where queue = :queue and key_values = :key_values and until > :now;

-- name: held_channels
-- The channels of a queue that are held, and until when.
select key_values, until from headrace_channel_hold where queue = :queue and until > :now;

-- name: drop_holds
-- Forget holds that have ended.
delete from headrace_channel_hold where queue = :queue and until <= :now;

-- name: remove_all_holds
-- Forget all holds of a queue.
delete from headrace_channel_hold where queue = :queue;
