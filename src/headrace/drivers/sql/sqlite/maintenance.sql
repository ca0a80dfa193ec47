-- Statements of maintenance.

-- name: take_lease
-- Take a chore for a while, unless somebody else has it.
insert into headrace_lease (task, holder, until)
values (:task, :holder, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) + :ttl)
on conflict (task) do update
    set holder = excluded.holder, until = excluded.until
    where headrace_lease.until <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) or :force
returning task;

-- name: set_ages
-- How long a topic keeps its records.
update headrace_topic set min_age = :min_age, max_age = :max_age where name = :topic;

-- name: collectable
-- Topics whose records may be collected.
select name from headrace_topic where min_age is not null or max_age is not null order by name;

-- name: move_floor
-- Records below are not there any more.
update headrace_topic set first_seq = :first_seq where id = :topic and first_seq < :first_seq;

-- name: drop_batches
-- Remove rows that lie below the floor as a whole, some at a time.
delete from headrace_batch
where rowid in (
    select rowid from headrace_batch
    where topic = :topic and base_seq < :first_seq and base_seq + count <= :first_seq
    order by base_seq limit :limit);

-- name: drop_expired_procs
-- Remove procs that live only while they are used, and were not.
delete from headrace_proc where expires_at <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) returning id, name;

-- name: drop_expired_keys
-- Forget keys that have run out, some at a time.
delete from headrace_once
where rowid in (
    select rowid from headrace_once
    where until <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
    order by until limit :limit);
