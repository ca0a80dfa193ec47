-- Statements that transactions begin with, and on what proves that they were committed.

-- name: sign
-- Leave this transaction's number, if it is committed; the answer is what the server calls it.
insert into headrace.signature (connection, transaction, at)
values (:connection::uuid, :transaction, coalesce(:now::bigint, headrace.clock()))
on conflict (connection) do update set transaction = excluded.transaction, at = excluded.at
returning pg_current_xact_id()::text as xid, headrace.plan_by_keys() as planned;

-- name: begin_relaxed
-- What this transaction does may be lost in a crash: it does not wait for the disk.
select set_config('synchronous_commit', 'off', true) as relaxed, headrace.plan_by_keys() as planned;

-- name: fate
-- What the server knows of a transaction that it calls so: aborted, in progress, or committed, be
-- it ours or, after a crash, another one. A standby does not know what is still to come, and what is
-- committed may not be seen yet: that is in progress, too.
select case when s.fate = 'committed'
                 and not pg_visible_in_snapshot(:xid::xid8, pg_current_snapshot())
            then 'in progress' else s.fate end as fate
from (
    select case when pg_is_in_recovery() then 'in progress'
                else pg_xact_status(:xid::xid8) end as fate
) s;

-- name: find_signature
-- Was it committed? Asked when it is not under way any more.
select 1 as found
from headrace.signature
where connection = :connection::uuid and transaction = :transaction;

-- name: drop_signatures
-- Forget connections that have begun nothing for an hour, some at a time: who asks later is told that
-- it is not known. Those that are in a transaction are left alone, and not waited for.
delete from headrace.signature
where connection = any(array(
    select connection from headrace.signature
    where at <= coalesce(:now::bigint, headrace.clock()) - 3600000
    limit :limit for update skip locked));
