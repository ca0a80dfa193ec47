-- Statements of maintenance.

-- name: take_lease
-- Take a chore for a while, unless somebody else has it.
insert into headrace.lease (task, holder, until)
values (:task, :holder, coalesce(:now::bigint, headrace.clock()) + :ttl)
on conflict (task) do update
    set holder = excluded.holder, until = excluded.until
    where headrace.lease.until <= coalesce(:now::bigint, headrace.clock()) or :force
returning task;

-- name: set_ages
-- How long a topic keeps its records.
update headrace.topic set min_age = :min_age, max_age = :max_age where name = :topic;

-- name: collectable
-- Topics whose records may be collected.
select name from headrace.topic where min_age is not null or max_age is not null order by name;

-- name: move_floor
-- Records below are not there any more.
update headrace.topic set first_seq = :first_seq where id = :topic and first_seq < :first_seq;

-- name: drop_batches
-- Remove rows that lie below the floor as a whole, some at a time.
delete from headrace.batch
where ctid = any(array(
    select ctid from headrace.batch
    where topic = :topic and base_seq < :first_seq and base_seq + count <= :first_seq
    order by base_seq limit :limit));

-- name: drop_expired_procs
-- Remove procs that live only while they are used, and were not.
delete from headrace.proc where expires_at <= coalesce(:now::bigint, headrace.clock()) returning id, name;

-- name: drop_expired_keys
-- Forget keys that have run out, some at a time. The clock stands in a subquery, since the
-- index cannot be searched for something that changes while one looks.
delete from headrace.once
where ctid = any(array(
    select ctid from headrace.once
    where until <= (select coalesce(:now::bigint, headrace.clock()))
    order by until limit :limit));
