-- Statements on selections, and the lanes of channels that they select.

-- name: find_selection
-- A selection by its form.
select id, since, seen_at from headrace_selection where queue = :queue and form = :form;

-- name: list_selections
-- The selections of a queue.
select id, form, since, seen_at from headrace_selection where queue = :queue order by form;

-- name: add_selection
-- Remember a selection.
insert into headrace_selection (queue, form, since, seen_at)
values (:queue, :form, :since, :seen_at);

-- name: touch_selection
-- Record that a selection is still in use.
update headrace_selection set seen_at = :seen_at where id = :id;

-- name: drop_selections
-- Forget selections.
delete from headrace_selection where id in (select value from json_each(:ids));

-- name: next_selection_version
-- Record that a queue's selections have changed: claims use another path.
update headrace_queue set selections = selections + 1, version = version + 1
where id = :queue
returning selections;

-- name: list_lanes
-- The lanes of a queue.
select id, version, selections from headrace_lane where queue = :queue order by id;

-- name: add_lane
-- Make a lane that is not there.
insert into headrace_lane (queue, version, selections) values (:queue, :version, :selections)
on conflict (queue, version, selections) do nothing;

-- name: lane_channels
-- Ready channels of a lane.
select r.channel, c.key_values
from headrace_ready_channel r join headrace_channel c on c.id = r.channel
where r.queue = :queue and r.lane = :lane
order by r.turn
limit :limit;

-- name: sort_channels
-- Put channels into lanes.
update headrace_channel set lane = :lane where id = :channel;

-- name: sort_turns
-- The same for ready channels.
update headrace_ready_channel set lane = :lane where channel = :channel;

-- name: remove_all_selections
-- Forget all selections of a queue.
delete from headrace_selection where queue = :queue;

-- name: remove_all_lanes
-- Remove the lanes of a queue.
delete from headrace_lane where queue = :queue;
