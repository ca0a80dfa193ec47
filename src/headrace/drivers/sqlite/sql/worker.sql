-- Statements on workers and their clients.

-- name: save_client
-- Register a client, or record its heartbeat.
insert into headrace_client (id, name, host, pid, started_at, seen_at)
values (:id, :name, :host, :pid, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)), coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)))
on conflict (id) do update set name = excluded.name, seen_at = excluded.seen_at
returning seen_at;

-- name: save_worker
-- Register a worker, or record its heartbeat; its desired state stays.
insert into headrace_worker (id, client, queue, desired, current, version, started_at, seen_at,
                           busy, done, failed, rate, error)
values (:id, :client, :queue, :desired, :current, :version, :now, :now,
        :busy, :done, :failed, :rate, :error)
on conflict (id) do update
    set current = excluded.current, version = excluded.version, seen_at = excluded.seen_at,
        busy = excluded.busy, done = excluded.done, failed = excluded.failed,
        rate = excluded.rate, error = excluded.error
returning id, desired;

-- name: lock_queue_settings
-- Lock a queue against changes, and against a freeze, until the transaction ends.
select id from headrace_queue where name = :name;

-- name: drop_other_workers
-- Delete the workers that a client no longer has.
delete from headrace_worker
where client = :client and not id in (select value from json_each(:ids));

-- name: worker_statuses
-- The states of the workers of a client at the last heartbeat.
select id, current from headrace_worker where client = :client;

-- name: drop_workers
-- Remove all workers of a client.
delete from headrace_worker where client = :client;

-- name: drop_client
-- Remove a client.
delete from headrace_client where id = :client;

-- name: list_clients
-- All clients.
select id, name, host, pid, started_at, seen_at,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) - seen_at as silent_ms
from headrace_client order by started_at, id;

-- name: list_workers
-- Workers of one queue or of all.
select id, client, queue, desired, current, version, started_at, seen_at,
       busy, done, failed, rate, error, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) - seen_at as silent_ms
from headrace_worker
where :queue is null or queue = :queue
order by started_at, id;

-- name: set_desired_state
-- Set the desired state of the workers of a queue.
update headrace_worker set desired = :desired where queue = :queue;

-- name: silent_clients
-- Clients without a heartbeat for some time.
select id from headrace_client
where seen_at <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) - :silent order by id;
