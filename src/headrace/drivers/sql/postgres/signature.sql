-- Statements on what proves that a transaction was committed.

-- name: sign
-- Leave this transaction's number, if it is committed; the answer is what the server calls it.
insert into headrace.signature as s (connection, transaction, at)
values (:connection::uuid, :transaction, coalesce(:now::bigint, headrace.clock()))
on conflict (connection) do update set transaction = excluded.transaction, at = excluded.at
returning pg_current_xact_id()::text as xid;

-- name: fate
-- What the server knows of a transaction that it calls so: aborted, in progress, or committed, be
-- it ours or, after a crash, another one.
select pg_xact_status(:xid::xid8) as fate;

-- name: find_signature
-- Was it committed? Asked when it is not under way any more.
select 1 as found
from headrace.signature
where connection = :connection::uuid and transaction = :transaction;

-- name: drop_signatures
-- Forget connections that have done nothing for an hour: nobody goes on asking for so long.
delete from headrace.signature where at <= coalesce(:now::bigint, headrace.clock()) - 3600000;
