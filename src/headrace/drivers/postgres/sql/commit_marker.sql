-- Statements that transactions begin with, and on markers that prove a commit.

-- name: write_marker
-- Store this transaction's number, so that it is there if it is committed. Returns the server's own id.
insert into headrace.commit_marker (connection, transaction, at)
values (:connection::uuid, :transaction, coalesce(:now::bigint, headrace.clock()))
on conflict (connection) do update set transaction = excluded.transaction, at = excluded.at
returning pg_current_xact_id()::text as xid, headrace.plan_by_keys() as planned,
          headrace.require_flush() as waits;

-- name: begin_relaxed
-- What this transaction does may be lost in a crash: its COMMIT does not wait for a flush.
select set_config('synchronous_commit', 'off', true) as relaxed,
       set_config('headrace.relaxed', 'on', true) as said, headrace.plan_by_keys() as planned;

-- name: relax
-- The same for a store that is relaxed: see headrace.require_flush.
select set_config('synchronous_commit', 'off', true) as relaxed,
       set_config('headrace.relaxed', 'on', true) as said;

-- name: transaction_status
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

-- name: find_marker
-- Whether a transaction was committed. Asked when it is no longer in progress.
select 1 as found
from headrace.commit_marker
where connection = :connection::uuid and transaction = :transaction;

-- name: drop_markers
-- Delete markers of connections that have begun nothing for an hour, some at a time. A later question
-- about them has no answer. Those in a transaction are skipped.
delete from headrace.commit_marker
where connection = any(array(
    select connection from headrace.commit_marker
    where at <= coalesce(:now::bigint, headrace.clock()) - 3600000
    limit :limit for update skip locked));
