-- Statements on items. Lists of rows are sent column by column: each column is one text, its
-- values divided by U+001E and nulls written as U+0015, which no value contains.

-- name: allocate_positions
-- Allocate positions in line.
select nextval('headrace.turn') as turn from generate_series(1, :count::integer);

-- name: add_items
-- New items; the ids of those whose subject is free.
insert into headrace.item (
    queue, rank, payload, format, subject, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides, channel, key_values
)
select r.queue, r.rank, r.payload, r.format, r.subject, r.priority, r.state, r.position, r.next_execution,
       r.waiting_since, r.created_at, r.headers, r.overrides, r.channel, r.key_values
from headrace.item_rows(
    :queue, :rank, :payload, :format, :subject, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :headers, :overrides, :channel, :key_values
) r
order by r.n
on conflict (queue, subject) where subject is not null do nothing
returning id, queue, subject;

-- name: add_plain_items
-- New items without a subject: nothing can be in their way.
insert into headrace.item (
    queue, rank, payload, format, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides
)
select r.queue, r.rank, r.payload, r.format, r.priority, r.state, r.position, r.next_execution,
       r.waiting_since, r.created_at, r.headers, r.overrides
from headrace.item_rows(
    :queue, :rank, :payload, :format, null, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :headers, :overrides, null, null
) r
order by r.n
returning id;

-- name: add_channel_items
-- New items of channels, without a subject.
insert into headrace.item (
    queue, rank, payload, format, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides, channel, key_values
)
select r.queue, r.rank, r.payload, r.format, r.priority, r.state, r.position, r.next_execution,
       r.waiting_since, r.created_at, r.headers, r.overrides, r.channel, r.key_values
from headrace.item_rows(
    :queue, :rank, :payload, :format, null, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :headers, :overrides, :channel, :key_values
) r
order by r.n
returning id;

-- name: last_item
-- The id of the item that was added last.
select lastval() as id;

-- name: restore_item
-- An item that had ended, with the id it had, if its subject is free.
insert into headrace.item (
    queue, rank, id, payload, format, subject, priority, state, position,
    next_execution, waiting_since, created_at, attempts, crashes, iterations,
    last_iteration, headers, overrides, token, lease_until, claimed_at, worker, error,
    successor, channel, key_values
)
overriding system value
values (
    :queue, :rank, :id, :payload, :format, :subject, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :attempts, :crashes, :iterations,
    :last_iteration, :headers, :overrides, :token, :lease_until, :claimed_at, :worker,
    :error, :successor, :channel, :key_values
)
on conflict (queue, subject) where subject is not null do nothing
returning id;

-- name: lock_subjects
-- Lock some subjects against other pushes of several, in one order, until the transaction ends. Two
-- pushes that meet the same subjects in different orders would deadlock. Hashes keep the locks few.
select pg_advisory_xact_lock(1214603638 /* AdvisoryLock.SUBJECTS */, l.hash)
from (select distinct (:queue % 33554432) * 64 + (hashtext(n.subject) & 63) as hash
      from unnest(:subjects::text[]) as n (subject)
      order by hash) l;

-- name: find_subjects
-- The live items that have some subjects, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and subject = any(:subjects::text[])
order by id
for no key update;

-- name: load_items
-- Live items by id, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and id = any(:ids::bigint[])
order by id
for no key update;

-- name: save_items
-- Store what has changed in locked items.
update headrace.item i
set rank = r.rank::integer, payload = coalesce(r.payload, ''), format = r.format::smallint,
    priority = r.priority::integer, state = r.state::smallint,
    position = r.position::bigint, next_execution = r.next_execution::bigint,
    waiting_since = r.waiting_since::bigint, attempts = r.attempts::integer,
    crashes = r.crashes::integer, iterations = r.iterations::integer,
    last_iteration = r.last_iteration::bigint, headers = r.headers,
    overrides = r.overrides, token = r.token, lease_until = r.lease_until::bigint,
    worker = r.worker, error = r.error, successor = r.successor
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:rank, E'\x1e', E'\x15'),
    string_to_table(:payload, E'\x1e', E'\x15'),
    string_to_table(:format, E'\x1e', E'\x15'),
    string_to_table(:priority, E'\x1e', E'\x15'),
    string_to_table(:state, E'\x1e', E'\x15'),
    string_to_table(:position, E'\x1e', E'\x15'),
    string_to_table(:next_execution, E'\x1e', E'\x15'),
    string_to_table(:waiting_since, E'\x1e', E'\x15'),
    string_to_table(:attempts, E'\x1e', E'\x15'),
    string_to_table(:crashes, E'\x1e', E'\x15'),
    string_to_table(:iterations, E'\x1e', E'\x15'),
    string_to_table(:last_iteration, E'\x1e', E'\x15'),
    string_to_table(:headers, E'\x1e', E'\x15'),
    string_to_table(:overrides, E'\x1e', E'\x15'),
    string_to_table(:token, E'\x1e', E'\x15'),
    string_to_table(:lease_until, E'\x1e', E'\x15'),
    string_to_table(:worker, E'\x1e', E'\x15'),
    string_to_table(:error, E'\x1e', E'\x15'),
    string_to_table(:successor, E'\x1e', E'\x15')
) with ordinality as r (
    id, rank, payload, format, priority, state, position, next_execution,
    waiting_since, attempts, crashes, iterations, last_iteration, headers, overrides,
    token, lease_until, worker, error, successor, n
)
where i.id = r.id::bigint and i.id = any(string_to_array(:id, E'\x1e')::bigint[]);

-- name: remove_items
-- Delete live items.
delete from headrace.item where queue = :queue and id = any(:ids::bigint[]);

-- name: delete_completed
-- Delete items of one claim that are done and are not kept; those with a successor stay.
delete from headrace.item
where queue = :queue and id = any(:ids::bigint[]) and token = :token and successor is null
returning id, key_values;

-- name: extend_items
-- Extend the leases of items.
update headrace.item set lease_until = coalesce(:now::bigint, headrace.clock()) + :lease
where queue = :queue and id = any(:ids::bigint[]) and token = :token
returning id;

-- name: overdue
-- What a claim has to do first: whether a queue has planned items that are due and items whose lease
-- is over, and whether there are counters whose lease is over. There are no files here. Asked by the
-- first of each: for any of them all might be read.
select coalesce((select min(next_execution) from headrace.item
                 where queue = :queue and state = 0) <= :now, false) as planned,
       coalesce((select min(lease_until) from headrace.item
                 where queue = :queue and state = 2) <= :now, false) as leases,
       coalesce((select min(until) from headrace.counter) <= :now, false) as counters,
       false as parking_lanes;

-- name: due_items
-- Planned items that are due, the earliest first.
select id, position, key_values from headrace.item
where queue = :queue and state = 0 and next_execution <= :now
order by next_execution, id
limit :limit
for no key update skip locked;

-- name: set_positions
-- Move planned items into the line.
update headrace.item i set state = 1, position = r.position::bigint
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:position, E'\x1e', E'\x15')
) with ordinality as r (
    id, position, n
)
where i.id = r.id::bigint and i.id = any(string_to_array(:id, E'\x1e')::bigint[]);

-- name: first_items
-- The first items in line.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and state = 1
order by rank, position
limit :limit
for no key update skip locked;

-- name: claimed_items
-- The items of a claim, in order.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and state = 2 and token = :token
order by rank, position;

-- name: mark_claimed
-- Store a claim in its items.
update headrace.item i
set state = 2, attempts = i.attempts + 1, token = r.token, lease_until = r.lease_until::bigint,
    claimed_at = r.claimed_at::bigint, worker = r.worker
from rows from (
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:token, E'\x1e', E'\x15'),
    string_to_table(:lease_until, E'\x1e', E'\x15'),
    string_to_table(:claimed_at, E'\x1e', E'\x15'),
    string_to_table(:worker, E'\x1e', E'\x15')
) with ordinality as r (
    id, token, lease_until, claimed_at, worker, n
)
where i.id = r.id::bigint and i.id = any(string_to_array(:id, E'\x1e')::bigint[]);

-- name: expired_leases
-- Items in flight whose lease has expired, the oldest lease first.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and state = 2 and lease_until <= :now
order by lease_until, id
limit :limit
for no key update skip locked;

-- name: next_times
-- When the next planned item is due, and when the next lease ends.
select (select next_execution from headrace.item where queue = :queue and state = 0
        order by next_execution, id limit 1) as due,
       (select lease_until from headrace.item where queue = :queue and state = 2
        order by lease_until, id limit 1) as lease;

-- name: find_item
-- A live item.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and id = :id;

-- name: lock_item
-- A live item, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and id = :id
for no key update;

-- name: find_subject
-- The live item of a subject.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and subject = :subject;

-- name: list_items
-- Live items in a state, by id.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and state = :state and id > :after
order by id
limit :limit;

-- name: waiting_items
-- All waiting items, without their content, to be counted.
select id, state, rank, position, next_execution
from headrace.item
where queue = :queue and state in (0, 1);

-- name: count_items
-- How many live items are in each state.
select state, count(*) as count from headrace.item where queue = :queue group by state;

-- name: oldest_due
-- When the oldest waiting item became due, and how many wait for a claim to notice that they are due
-- or that their lease is over.
select (select min(next_execution) from headrace.item where queue = :queue and state = 1) as pending,
       (select min(next_execution) from headrace.item
        where queue = :queue and state = 0 and next_execution <= :now) as planned,
       (select count(*) from headrace.item
        where queue = :queue and state = 0 and next_execution <= :now)
       + (select count(*) from headrace.item
          where queue = :queue and state = 2 and lease_until <= :now) as overdue;

-- name: rerank_items
-- Put all items of a queue in the order of another discipline.
update headrace.item
set rank = case when :discipline = 'priority' then -priority else 0 end,
    position = case when :discipline = 'lifo' then -abs(position) else abs(position) end
where queue = :queue;

-- name: active_items
-- All items in flight.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor, key_values
from headrace.item
where queue = :queue and state = 2
order by id
for no key update;
