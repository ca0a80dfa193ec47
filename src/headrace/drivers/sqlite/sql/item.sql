-- Statements on items.

-- name: allocate_positions
-- Allocate positions in line.
update headrace_turn set last = last + :count returning last as turn;

-- name: add_items
-- New items; the ids of those whose subject is free.
insert into headrace_item (
    queue, rank, payload, format, subject, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides, channel, key_values
)
values (
    :queue, :rank, :payload, :format, :subject, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :headers, :overrides, :channel, :key_values
)
on conflict (queue, subject) where subject is not null do nothing
returning id, queue, subject;

-- name: add_plain_items
-- New items without a subject: nothing can be in their way.
insert into headrace_item (
    queue, rank, payload, format, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides
)
values (
    :queue, :rank, :payload, :format, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :headers, :overrides
);

-- name: add_channel_items
-- New items of channels, without a subject.
insert into headrace_item (
    queue, rank, payload, format, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides, channel, key_values
)
values (
    :queue, :rank, :payload, :format, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :headers, :overrides, :channel,
    :key_values
);

-- name: last_item
-- The id of the item that was added last.
select last_insert_rowid() as id;

-- name: restore_item
-- An item that had ended, with the id it had, if its subject is free.
insert into headrace_item (
    queue, rank, id, payload, format, subject, priority, state, position,
    next_execution, waiting_since, created_at, attempts, crashes, iterations,
    last_iteration, headers, overrides, token, lease_until, claimed_at, worker, error,
    successor, channel, key_values
)
values (
    :queue, :rank, :id, :payload, :format, :subject, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :attempts, :crashes, :iterations,
    :last_iteration, :headers, :overrides, :token, :lease_until, :claimed_at, :worker,
    :error, :successor, :channel, :key_values
)
on conflict (queue, subject) where subject is not null do nothing
returning id;

-- name: lock_subjects
-- Lock some subjects against other pushes of several: SQLite has one writer at a time.
select :queue as queue, :subjects as subjects;

-- name: find_subjects
-- The live items that have some subjects, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and subject in (select value from json_each(:subjects))
order by id;

-- name: load_items
-- Live items by id, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and id in (select value from json_each(:ids))
order by id;

-- name: save_items
-- Store what has changed in locked items.
update headrace_item
set rank = :rank, payload = :payload, format = :format, priority = :priority,
    state = :state, position = :position, next_execution = :next_execution,
    waiting_since = :waiting_since, attempts = :attempts, crashes = :crashes,
    iterations = :iterations, last_iteration = :last_iteration, headers = :headers,
    overrides = :overrides, token = :token, lease_until = :lease_until,
    worker = :worker, error = :error, successor = :successor
where id = :id;

-- name: remove_items
-- Delete live items.
delete from headrace_item where queue = :queue and id in (select value from json_each(:ids));

-- name: delete_completed
-- Delete items of one claim that are done and are not kept; those with a successor stay.
delete from headrace_item
where queue = :queue and id in (select value from json_each(:ids)) and token = :token and successor is null
returning id, key_values;

-- name: extend_items
-- Extend the leases of items.
update headrace_item set lease_until = coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) + :lease
where queue = :queue and id in (select value from json_each(:ids)) and token = :token
returning id;

-- name: overdue
-- What a claim has to do first: whether a queue has planned items that are due, items whose lease is
-- over, and files, and whether there are counters whose lease is over.
select exists (select 1 from headrace_item
               where queue = :queue and state = 0 and next_execution <= :now) as planned,
       exists (select 1 from headrace_item
               where queue = :queue and state = 2 and lease_until <= :now) as leases,
       exists (select 1 from headrace_counter where until <= :now) as counters,
       exists (select 1 from headrace_parking_lane where queue = :queue) as parking_lanes;

-- name: due_items
-- Planned items that are due, the earliest first.
select id, position, key_values from headrace_item
where queue = :queue and state = 0 and next_execution <= :now
order by next_execution, id
limit :limit;

-- name: set_positions
-- Move planned items into the line.
update headrace_item set state = 1, position = :position where id = :id;

-- name: first_items
-- The first items in line.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and state = 1
order by rank, position
limit :limit;

-- name: claimed_items
-- The items of a claim, in order.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and state = 2 and token = :token
order by rank, position;

-- name: mark_claimed
-- Store a claim in its items.
update headrace_item
set state = 2, attempts = attempts + 1, token = :token, lease_until = :lease_until,
    claimed_at = :claimed_at, worker = :worker
where id = :id;

-- name: expired_leases
-- Items in flight whose lease has expired, the oldest lease first.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and state = 2 and lease_until <= :now
order by lease_until, id
limit :limit;

-- name: next_times
-- When the next planned item is due, and when the next lease ends.
select (select next_execution from headrace_item where queue = :queue and state = 0
        order by next_execution, id limit 1) as due,
       (select lease_until from headrace_item where queue = :queue and state = 2
        order by lease_until, id limit 1) as lease;

-- name: find_item
-- A live item.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and id = :id;

-- name: lock_item
-- A live item, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and id = :id;

-- name: find_subject
-- The live item of a subject.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and subject = :subject;

-- name: list_items
-- Live items in a state, by id.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and state = :state and id > :after
order by id
limit :limit;

-- name: waiting_items
-- All waiting items, without their content, to be counted.
select id, state, rank, position, next_execution
from headrace_item
where queue = :queue and state in (0, 1);

-- name: count_items
-- How many live items are in each state.
select state, count(*) as count from headrace_item where queue = :queue group by state;

-- name: oldest_due
-- When the oldest waiting item became due, and how many wait for a claim to notice that they are due
-- or that their lease is over.
select (select min(next_execution) from headrace_item where queue = :queue and state = 1) as pending,
       (select min(next_execution) from headrace_item
        where queue = :queue and state = 0 and next_execution <= :now) as planned,
       (select count(*) from headrace_item
        where queue = :queue and state = 0 and next_execution <= :now)
       + (select count(*) from headrace_item
          where queue = :queue and state = 2 and lease_until <= :now) as overdue;

-- name: rerank_items
-- Put all items of a queue in the order of another discipline.
update headrace_item
set rank = case when :discipline = 'priority' then -priority else 0 end,
    position = case when :discipline = 'lifo' then -abs(position) else abs(position) end
where queue = :queue;

-- name: active_items
-- All items in flight.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace_item
where queue = :queue and state = 2
order by id;
