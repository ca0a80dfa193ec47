-- Statements on channels.

-- name: mark_channels
-- Record that a queue has channels: claims use another path from now on, and rules apply. Another
-- transaction may have marked it since we read it: then its version of the rules is ours.
update headrace.queue q
set has_channels = true, version = q.version + (not q.has_channels)::integer,
    limit_version = case when q.has_channels then q.limit_version else
                 coalesce((select v.version from headrace.limit_version v
                           where exists (select from headrace.limit_rule r
                                         where r.queue in ('*', q.name))), 0) end
where q.id = :queue
returning q.limit_version;

-- name: lock_channels_shared
-- Channels by name. They cannot be removed before the transaction ends.
select h.id, n.name as key_values, h.has_updateable
from unnest(:names::text[]) as n (name)
cross join lateral (
    select c.id, c.has_updateable from headrace.channel c
    where c.queue = :queue and c.key_values = n.name
    for key share
) h;

-- name: mark_updateable
-- Remember that channels have items that give their place to newer ones.
update headrace.channel set has_updateable = true
where id = any(:channels::integer[]) and not has_updateable;

-- name: add_channels
-- Create channels that do not exist.
insert into headrace.channel (queue, key_values, created_at)
select :queue, n.name, :at from unnest(:names::text[]) as n (name)
order by n.name collate "C"
on conflict (queue, key_values) do nothing;

-- name: add_turns
-- Add channels to the ready ones. They are locked, so what is seen stays; a conflict would wait for
-- the transaction that changes the row.
insert into headrace.ready_channel (channel, queue, lane, turn)
select r.channel::integer, r.queue::integer,
       (select c.lane from headrace.channel c where c.id = r.channel::integer), r.turn::bigint
from rows from (
    string_to_table(:channel, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:turn, E'\x1e', E'\x15')
) as r (channel, queue, turn)
where not exists (select from headrace.ready_channel f where f.channel = r.channel::integer)
order by r.channel::integer
on conflict (channel) do nothing;

-- name: empty_channels
-- Channels by name that have nothing in line, locked against pushes.
select c.id from headrace.channel c
where c.queue = :queue and c.key_values = any(:names::text[])
  and not exists (select from headrace.item i
                  where i.channel = c.id and i.channel <> 0 and i.state = 1)
for update skip locked;

-- name: emptied_channels
-- The same by number.
select c.id from headrace.channel c
where c.id = any(:channels::integer[])
  and not exists (select from headrace.item i
                  where i.channel = c.id and i.channel <> 0 and i.state = 1)
for update skip locked;

-- name: drop_turns
-- Remove channels that have nothing in line from the ready ones.
delete from headrace.ready_channel where channel = any(array(
    select r.channel from headrace.ready_channel r
    where r.channel = any(:channels::integer[])
      and not exists (select from headrace.item i
                      where i.channel = r.channel and i.channel <> 0 and i.state = 1)
    for update skip locked));

-- name: next_channels
-- The channels of a lane whose turn is next.
select r.channel, r.turn, c.key_values
from headrace.ready_channel r join headrace.channel c on c.id = r.channel
where r.queue = :queue and r.lane = :lane and r.turn > :after
order by r.turn
limit :limit;

-- name: move_turns
-- Give channels a new turn.
update headrace.ready_channel r set turn = m.turn
from (
    select l.channel, t.turn::bigint as turn
    from rows from (
        string_to_table(:channel, E'\x1e', E'\x15'),
        string_to_table(:turn, E'\x1e', E'\x15')
    ) as t (channel, turn)
    cross join lateral (
        select f.channel from headrace.ready_channel f where f.channel = t.channel::integer
        for no key update skip locked
    ) l
) m
where r.channel = m.channel;

-- name: lock_turns
-- Channels, locked against other claims.
select channel from headrace.ready_channel where channel = any(:channels::integer[])
order by channel
for no key update skip locked;

-- name: blocked_channels
-- Channels with an item in flight, or one that will return to its position.
select c.channel from unnest(:channels::integer[]) as c (channel)
where exists (select from headrace.item i
              where i.channel = c.channel and i.channel <> 0 and i.state = 2)
   or exists (select from headrace.item i
              where i.channel = c.channel and i.channel <> 0 and i.state = 0
                and i.position is not null);

-- name: channel_items
-- The first items in line of some channels, so many of each, in the order of the channels.
select c.turn, i.*
from unnest(:channels::integer[]) with ordinality as c (channel, turn)
cross join lateral (
    select rank, id, payload, format, subject, priority, state, position, next_execution,
           waiting_since, created_at, attempts, crashes, iterations, last_iteration,
           headers, overrides, token, lease_until, claimed_at, worker, error, successor,
           key_values
    from headrace.item f
    where f.channel = c.channel and f.channel <> 0 and f.state = 1
      and f.id <> all(:but::bigint[])
    order by f.rank, f.position
    limit :each
    for no key update skip locked
) i
limit :limit;

-- name: last_in_line
-- The last items in line of some channels, where any item may have to give its place, and of
-- some for certain.
select i.id, i.payload, i.format, i.subject, i.priority, i.state, i.position, i.next_execution,
       i.waiting_since, i.created_at, i.attempts, i.crashes, i.iterations, i.last_iteration,
       i.headers, i.overrides, i.token, i.lease_until, i.claimed_at, i.worker, i.error,
       i.successor, i.key_values
from headrace.channel c
cross join lateral (
    select f.* from headrace.item f
    where f.channel = c.id and f.channel <> 0 and f.state = 1
    order by f.rank desc, f.position desc
    limit 1
) i
where c.queue = :queue and c.key_values = any(:names::text[])
  and (c.has_updateable or c.key_values = any(:certain::text[]));

-- name: lock_pushes
-- Lock a queue with a capacity against other pushes, until the transaction ends.
select pg_advisory_xact_lock(1214603635 /* AdvisoryLock.PUSHES */, :queue) as alone;

-- name: save_push
-- Set a savepoint, to undo a push that turns out to exceed a limit.
savepoint headrace_push;

-- name: undo_push
-- Undo all of a push since its savepoint.
rollback to savepoint headrace_push;

-- name: channel_sizes
-- How many live items some channels have.
select c.key_values, count(*) as size
from headrace.channel c join headrace.item i on i.channel = c.id and i.channel <> 0
where c.queue = :queue and c.key_values = any(:names::text[])
group by c.key_values;

-- name: line_items
-- Items in line behind a place, without their content.
select id, channel, key_values, rank, position
from headrace.item
where queue = :queue and state = 1 and (rank, position) > (:rank::bigint, :position::bigint)
order by rank, position
limit :limit;

-- name: pending_items
-- Items by id, if they still stand in line.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where id = any(:ids::bigint[]) and state = 1
order by rank, position
for no key update skip locked;

-- name: rechannel_items
-- Move items to other channels.
update headrace.item i set channel = r.channel::integer, key_values = r.key_values
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:channel, E'\x1e', E'\x15'),
    string_to_table(:key_values, E'\x1e', E'\x15')
) as r (id, channel, key_values)
where i.id = r.id::bigint and i.id = any(string_to_array(:id, E'\x1e')::bigint[]);

-- name: list_channels
-- Channels by name that have items: how many wait, and how many are in flight.
select c.id, c.key_values,
       (select count(*) from headrace.item i
        where i.channel = c.id and i.channel <> 0 and i.state in (0, 1)) as waiting,
       (select count(*) from headrace.item i
        where i.channel = c.id and i.channel <> 0 and i.state = 2) as active,
       (select h.until from headrace.channel_delay h
        where h.queue = c.queue and h.key_values = c.key_values and h.until > :now) as delayed_until
from headrace.channel c
where c.queue = :queue and c.key_values > :after
  and exists (select from headrace.item i where i.channel = c.id and i.channel <> 0)
order by c.key_values
limit :limit;

-- name: channel_members
-- All live items of some channels, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where channel = any(:channels::integer[]) and channel <> 0
order by id
for no key update;

-- name: lock_channels_exclusive
-- Lock channels against pushes.
select id from headrace.channel where id = any(:channels::integer[])
order by key_values
for update;

-- name: add_deleted_items
-- Store the claims on items that were deleted with their channel.
insert into headrace.deleted_item (item, queue, token, at)
select r.item::bigint, r.queue::integer, r.token, r.at::bigint
from rows from (
    string_to_table(:item, E'\x1e', E'\x15'),
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:token, E'\x1e', E'\x15'),
    string_to_table(:at, E'\x1e', E'\x15')
) as r (item, queue, token, at)
on conflict (item) do nothing;

-- name: find_deleted_items
-- Claimed items that were deleted with their channel, and their tokens.
select item, token from headrace.deleted_item
where queue = :queue and item = any(:items::bigint[]);

-- name: drop_deleted_items
-- Forget items that were deleted long ago.
delete from headrace.deleted_item where item = any(array(
    select item from headrace.deleted_item where queue = :queue and at <= :at
    order by at, item limit :limit))
returning item;

-- name: idle_channels
-- Channels that no longer have items. Nothing is pushed to them meanwhile.
select c.id from headrace.channel c
where c.queue = :queue and c.created_at <= :at
  and not exists (select from headrace.item i where i.channel = c.id and i.channel <> 0)
order by c.id
limit :limit
for update skip locked;

-- name: drop_channels
-- Remove channels that have no items.
delete from headrace.channel c
where c.id = any(:channels::integer[])
  and not exists (select from headrace.item i where i.channel = c.id and i.channel <> 0);

-- name: remove_all_turns
-- Remove the turns of a queue's channels.
delete from headrace.ready_channel where queue = :queue;

-- name: remove_all_channels
-- Remove a queue's channels.
delete from headrace.channel where queue = :queue;

-- name: remove_all_deleted_items
-- Forget the deleted items of a queue's channels.
delete from headrace.deleted_item where queue = :queue;

-- name: delay_channel
-- Delay a channel until a time; a later end stays.
insert into headrace.channel_delay (queue, key_values, until) values (:queue, :key_values, :until)
on conflict (queue, key_values) do update
    set until = greatest(headrace.channel_delay.until, excluded.until)
returning until;

-- name: end_delay
-- End a channel's delay.
delete from headrace.channel_delay where queue = :queue and key_values = :key_values;

-- name: find_delay
-- Until when a channel is delayed, if it is.
select until from headrace.channel_delay
where queue = :queue and key_values = :key_values and until > :now;

-- name: delayed_channels
-- The channels of a queue that are delayed, and until when.
select key_values, until from headrace.channel_delay where queue = :queue and until > :now;

-- name: drop_delays
-- Delete delays that have ended.
delete from headrace.channel_delay where queue = :queue and until <= :now;

-- name: remove_all_delays
-- Delete all delays of a queue.
delete from headrace.channel_delay where queue = :queue;
