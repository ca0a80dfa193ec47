-- Statements that wake waiting processes.

-- name: notify
-- Notify waiting processes, if there are any, that topics have new records.
select pg_notify(:channel, :topics)
where exists (select from headrace.waiter where until > headrace.clock());

-- name: register_waiter
-- Register a waiting process for a while.
insert into headrace.waiter (id, until)
values (:id::uuid, headrace.clock() + :ttl)
on conflict (id) do update set until = excluded.until;

-- name: unregister_waiter
-- Unregister a waiting process, and those that have vanished.
delete from headrace.waiter where id = :id::uuid or until <= headrace.clock();
