-- Statements on selections, and the lanes of channels that they select.

-- name: find_selection
-- A selection by its form.
select id, since, seen_at from headrace.selection where queue = :queue and form = :form;

-- name: list_selections
-- The selections of a queue.
select id, form, since, seen_at from headrace.selection where queue = :queue order by form;

-- name: add_selection
-- Remember a selection.
insert into headrace.selection (queue, form, since, seen_at)
values (:queue, :form, :since, :seen_at);

-- name: touch_selection
-- Record that a selection is still in use.
update headrace.selection set seen_at = :seen_at where id = :id;

-- name: drop_selections
-- Forget selections.
delete from headrace.selection where id = any(:ids::integer[]);

-- name: next_selection_version
-- Record that a queue's selections have changed: claims use another path.
update headrace.queue set selections = selections + 1, version = version + 1
where id = :queue
returning selections;

-- name: list_lanes
-- The lanes of a queue.
select id, version, selections from headrace.lane where queue = :queue order by id;

-- name: add_lane
-- Make a lane that is not there.
insert into headrace.lane (queue, version, selections) values (:queue, :version, :selections)
on conflict (queue, version, selections) do nothing;

-- name: lane_channels
-- Ready channels of a lane.
select r.channel, c.key_values
from headrace.ready_channel r join headrace.channel c on c.id = r.channel
where r.queue = :queue and r.lane = :lane
order by r.turn
limit :limit;

-- name: sort_channels
-- Put channels into lanes, except those that another transaction is changing.
update headrace.channel c set lane = m.lane
from (
    select l.id, t.lane::integer as lane
    from rows from (
        string_to_table(:channel, E'\x1e', E'\x15'),
        string_to_table(:lane, E'\x1e', E'\x15')
    ) as t (channel, lane)
    cross join lateral (
        select f.id from headrace.channel f where f.id = t.channel::integer
        for no key update skip locked
    ) l
) m
where c.id = m.id;

-- name: sort_turns
-- The same for ready channels.
update headrace.ready_channel r set lane = m.lane
from (
    select l.channel, t.lane::integer as lane
    from rows from (
        string_to_table(:channel, E'\x1e', E'\x15'),
        string_to_table(:lane, E'\x1e', E'\x15')
    ) as t (channel, lane)
    cross join lateral (
        select f.channel from headrace.ready_channel f where f.channel = t.channel::integer
        for no key update skip locked
    ) l
) m
where r.channel = m.channel;

-- name: remove_all_selections
-- Forget all selections of a queue.
delete from headrace.selection where queue = :queue;

-- name: remove_all_lanes
-- Remove the lanes of a queue.
delete from headrace.lane where queue = :queue;
