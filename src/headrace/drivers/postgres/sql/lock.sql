-- Statements on locks.

-- name: add_lock
-- Create a lock without a holder.
insert into headrace.lock (key_values) values (:key_values) on conflict do nothing;

-- name: find_lock
-- A lock as it is.
select id, key_values, fence, session, holder, since, until
from headrace.lock
where key_values = :key_values;

-- name: load_lock
-- A lock, locked against other transactions that acquire or release it.
select id, key_values, fence, session, holder, since, until
from headrace.lock
where key_values = :key_values
for update;

-- name: lock_line
-- The waiters for a lock, in the order of their arrival.
select p.session, p.until
from headrace.lock_waiter p
join headrace.lock l on l.id = p.lock
where l.key_values = :key_values
order by p.id;

-- name: grant_lock
-- Grant a locked lock to a session, by the next number.
update headrace.lock
set fence = greatest(fence, (select f.fence from headrace.lock_floor f where f.id = 0)) + 1,
    session = :session, holder = :holder, since = :since, until = :until
where id = :id
returning fence;

-- name: save_place
-- A place in line: a new one at its end, or the one that the session has.
insert into headrace.lock_waiter (lock, session, until)
values (:lock, :session, :until)
on conflict (session) do update set lock = excluded.lock, until = excluded.until;

-- name: renew_places
-- Renew places in line.
update headrace.lock_waiter set until = coalesce(:now::bigint, headrace.clock()) + :ttl::bigint
where session = any(:sessions::text[])
returning session;

-- name: drop_place
-- Delete a place in line.
delete from headrace.lock_waiter where session = :session returning session;

-- name: extend_lock
-- Extend the lease of a lock.
update headrace.lock set until = coalesce(:now::bigint, headrace.clock()) + :lease::bigint
where key_values = :key_values and session = :session
returning until;

-- name: release_lock
-- Release a lock.
update headrace.lock
set session = null, holder = null, until = coalesce(:now::bigint, headrace.clock())
where key_values = :key_values and session = :session
returning id;

-- name: guard_lock
-- The number of a grant. Until the transaction ends no other session gets the lock.
select fence from headrace.lock
where key_values = :key_values and session = :session
for key share;

-- name: list_locks
-- Locks that have a holder or waiters, by name.
select key_values, fence, holder, since, until, waiting, now
from (
    select l.key_values, l.fence, l.session, l.holder, l.since, l.until, c.now,
           (select count(*) from headrace.lock_waiter p
            where p.lock = l.id and p.until > c.now) as waiting
    from headrace.lock l
    cross join (select coalesce(:now::bigint, headrace.clock()) as now) c
    where l.key_values > :after
) found
where session is not null or waiting > 0
order by key_values
limit :limit;

-- name: drop_places
-- Delete places that were not renewed for long.
delete from headrace.lock_waiter where until <= coalesce(:now::bigint, headrace.clock()) - :age::bigint;

-- name: idle_locks
-- Locks that have been without a holder for long, locked.
select id from headrace.lock
where until <= coalesce(:now::bigint, headrace.clock()) - :age::bigint
order by until limit :limit
for update skip locked;

-- name: drop_locks
-- Delete locked locks that have no waiters.
delete from headrace.lock
where id = any(:ids::bigint[])
  and not exists (select 1 from headrace.lock_waiter p where p.lock = headrace.lock.id)
returning fence;

-- name: raise_fence_floor
-- Locks that are created again begin above this number.
update headrace.lock_floor set fence = greatest(fence, :fence) where id = 0;
