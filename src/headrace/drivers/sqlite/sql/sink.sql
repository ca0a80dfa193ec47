-- Statements on sinks.

-- name: add_sink
-- Make a sink for a query, unless there is one.
insert into headrace_sink (name, query_id, last_batch, at, outcome)
values (:sink, :query, -1, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)), '{}')
on conflict (name) do nothing;

-- name: lock_sink
-- A sink, and the clock.
select name, query_id, last_batch, at, outcome, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_sink
where name = :sink;

-- name: advance_sink
-- Record the batch that is published now.
update headrace_sink
set last_batch = :batch, at = coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)), outcome = :outcome
where name = :sink;

-- name: find_sinks
-- The sink of a name, or all of them.
select name, query_id, last_batch, at, outcome
from headrace_sink
where :sink is null or name = :sink
order by name;

-- name: drop_sink
-- Forget a sink.
delete from headrace_sink where name = :sink
returning name, query_id, last_batch, at, outcome;
