-- Statements on counters of user code.

-- name: find_counter
-- What a session holds.
select key_values, count, coalesce(until, 0) as until from headrace.counter where session = :session;

-- name: lock_counter
-- The same, locked against changes by other transactions.
select count from headrace.counter where session = :session
for no key update;

-- name: add_counter
-- A session holds something from now on.
insert into headrace.counter (session, key_values, count, until, holder, since)
values (:session, :key_values, :count, :until, :holder, :since)
on conflict (session) do nothing;

-- name: change_counter
-- What was set is another number.
update headrace.counter set count = :count where session = :session;

-- name: extend_counter
-- Keep what a session holds for a while.
update headrace.counter set until = coalesce(:now::bigint, headrace.clock()) + :lease::bigint
where session = :session and until is not null
returning until;

-- name: drop_counters
-- Release the counts of sessions; returns what they were.
delete from headrace.counter where session = any(:sessions::text[])
returning key_values, count;

-- name: ended_counters
-- Sessions whose lease is over.
select session from headrace.counter where until <= :now
order by until limit :limit
for no key update skip locked;

-- name: next_counter_end
-- When the next lease ends.
select min(until) as until from headrace.counter;

-- name: sum_counters
-- How much is counted, by key-values.
select key_values, sum(count)::bigint as count from headrace.counter group by key_values;

-- name: counter_holders
-- Sessions and their counts.
select key_values, holder, since from headrace.counter
order by key_values, since, session collate "C" limit :limit;

-- name: list_counters
-- How much is counted by key-values, and by how many holders.
select key_values, sum(count)::bigint as count, count(until) as holders
from headrace.counter
where key_values > :after
group by key_values
order by key_values
limit :limit;
