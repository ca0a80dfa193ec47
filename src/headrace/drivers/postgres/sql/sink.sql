-- Statements on sinks.

-- name: add_sink
-- Create a sink for a query, unless there is one. A second transaction waits for the first.
insert into headrace.sink (name, query_id, last_batch, at, outcome)
values (:sink, :query, -1, coalesce(:now::bigint, headrace.clock()), '{}')
on conflict (name) do nothing;

-- name: lock_sink
-- A sink, locked against other writers until this transaction ends; and the clock.
select name, query_id, last_batch, at, outcome, coalesce(:now::bigint, headrace.clock()) as now
from headrace.sink
where name = :sink
for update;

-- name: advance_sink
-- Record the batch that is published now.
update headrace.sink
set last_batch = :batch, at = coalesce(:now::bigint, headrace.clock()), outcome = :outcome
where name = :sink;

-- name: find_sinks
-- The sink of a name, or all of them.
select name, query_id, last_batch, at, outcome
from headrace.sink
where :sink::text is null or name = :sink
order by name;

-- name: drop_sink
-- Forget a sink.
delete from headrace.sink where name = :sink
returning name, query_id, last_batch, at, outcome;
