-- Statements of maintenance.

-- name: acquire_lease
-- Acquire a maintenance task for a while, unless another process has it.
insert into headrace_lease (task, holder, until)
values (:task, :holder, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) + :ttl)
on conflict (task) do update
    set holder = excluded.holder, until = excluded.until
    where headrace_lease.until <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) or :force
returning task;

-- name: set_retention
-- Set how long a topic keeps its records.
update headrace_topic set min_age = :min_age, max_age = :max_age where name = :topic;

-- name: read_retention
-- How long topics without a retention of their own keep their records.
select min_age, max_age, every from headrace_retention;

-- name: save_retention
-- Change it.
insert into headrace_retention (id, min_age, max_age, every)
values (1, :min_age, :max_age, :every)
on conflict (id) do update
    set min_age = excluded.min_age, max_age = excluded.max_age, every = excluded.every;

-- name: prunable
-- Topics whose records may be pruned: by their own retention, or by that of the store.
select name from headrace_topic
where next_seq > 0 and (min_age is not null or max_age is not null
    or exists (select 1 from headrace_retention r where r.min_age is not null or r.max_age is not null))
order by name;

-- name: move_floor
-- Records below this number no longer exist.
update headrace_topic set first_seq = :first_seq where id = :topic and first_seq < :first_seq;

-- name: drop_batches
-- Remove rows that lie below the floor as a whole, some at a time.
delete from headrace_batch
where rowid in (
    select rowid from headrace_batch
    where topic = :topic and base_seq < :first_seq and base_seq + count <= :first_seq
    order by base_seq limit :limit);

-- name: drop_expired_procs
-- Delete procs with a ttl that were not used for that long.
delete from headrace_proc where expires_at <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) returning id, name;

-- name: drop_expired_keys
-- Forget keys that have run out, some at a time.
delete from headrace_idempotency_key
where rowid in (
    select rowid from headrace_idempotency_key
    where until <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
    order by until limit :limit);
