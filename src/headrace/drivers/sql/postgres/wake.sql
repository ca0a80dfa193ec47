-- Statements that wake waiting processes.

-- name: notify
-- Tell those who listen that topics have new records, if anybody does.
select pg_notify(:channel, :topics)
where exists (select from headrace.waiter where until > headrace.clock());

-- name: keep_waiter
-- Say that somebody listens, for a while.
insert into headrace.waiter (id, until)
values (:id::uuid, headrace.clock() + :ttl)
on conflict (id) do update set until = excluded.until;

-- name: drop_waiter
-- Nobody listens here any more; forget also those who vanished.
delete from headrace.waiter where id = :id::uuid or until <= headrace.clock();
