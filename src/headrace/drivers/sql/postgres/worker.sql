-- Statements on those who work on queues.

-- name: keep_client
-- Say that a client is there.
insert into headrace.client (id, name, host, pid, started_at, seen_at)
values (:id, :name, :host, :pid, coalesce(:now::bigint, headrace.clock()), coalesce(:now::bigint, headrace.clock()))
on conflict (id) do update set name = excluded.name, seen_at = excluded.seen_at
returning seen_at;

-- name: keep_worker
-- Say that a worker is there, and what it does; what it shall do stays.
insert into headrace.worker (id, client, queue, desired, current, version, started_at, seen_at,
                           busy, done, failed, rate, error)
values (:id, :client, :queue, :desired, :current, :version, :now, :now,
        :busy, :done, :failed, :rate, :error)
on conflict (id) do update
    set current = excluded.current, version = excluded.version, seen_at = excluded.seen_at,
        busy = excluded.busy, done = excluded.done, failed = excluded.failed,
        rate = excluded.rate, error = excluded.error
returning id, desired;

-- name: drop_other_workers
-- Remove the workers that a client does not have any more.
delete from headrace.worker
where client = :client and not id = any(:ids::text[]);

-- name: drop_workers
-- Remove all workers of a client.
delete from headrace.worker where client = :client;

-- name: drop_client
-- Remove a client.
delete from headrace.client where id = :client;

-- name: list_clients
-- All clients.
select id, name, host, pid, started_at, seen_at from headrace.client order by started_at, id;

-- name: list_workers
-- Workers of one queue or of all.
select id, client, queue, desired, current, version, started_at, seen_at,
       busy, done, failed, rate, error
from headrace.worker
where :queue::text is null or queue = :queue
order by started_at, id;

-- name: desire
-- Say what the workers of a queue shall do.
update headrace.worker set desired = :desired where queue = :queue;

-- name: silent_clients
-- Clients that were not heard of for some time.
select id from headrace.client
where seen_at <= coalesce(:now::bigint, headrace.clock()) - :silent order by id;
