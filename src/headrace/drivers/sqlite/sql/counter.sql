-- Statements on counters of user code.

-- name: find_counter
-- What a session holds.
select key_values, count, coalesce(until, 0) as until from headrace_counter where session = :session;

-- name: lock_counter
-- The same, locked against changes by other transactions.
select count from headrace_counter where session = :session;

-- name: add_counter
-- A session holds something from now on.
insert into headrace_counter (session, key_values, count, until, holder, since)
values (:session, :key_values, :count, :until, :holder, :since)
on conflict (session) do nothing;

-- name: change_counter
-- What was set is another number.
update headrace_counter set count = :count where session = :session;

-- name: extend_counter
-- Keep what a session holds for a while.
update headrace_counter set until = coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) + :lease
where session = :session and until is not null
returning until;

-- name: drop_counters
-- Release the counts of sessions; returns what they were.
delete from headrace_counter where session in (select value from json_each(:sessions))
returning key_values, count;

-- name: ended_counters
-- Sessions whose lease is over.
select session from headrace_counter where until <= :now
order by until limit :limit;

-- name: next_counter_end
-- When the next lease ends.
select min(until) as until from headrace_counter;

-- name: sum_counters
-- How much is counted, by key-values.
select key_values, sum(count) as count from headrace_counter group by key_values;

-- name: counter_holders
-- Sessions and their counts.
select key_values, holder, since from headrace_counter
order by key_values, since, session limit :limit;

-- name: list_counters
-- How much is counted by key-values, and by how many holders.
select key_values, sum(count) as count, count(until) as holders
from headrace_counter
where key_values > :after
group by key_values
order by key_values
limit :limit;
