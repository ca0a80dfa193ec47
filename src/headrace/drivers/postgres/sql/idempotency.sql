-- Statements on idempotency keys.

-- name: reserve_keys
-- Reserve keys; a key that is in use and has not expired stays as it is and is not returned.
insert into headrace.idempotency_key (scope, key, until, digest)
select :scope, u.key, coalesce(:now::bigint, headrace.clock()) + u.ttl, u.digest
from unnest(:keys::text[], :ttls::bigint[], :digests::text[]) u (key, ttl, digest)
order by u.key
on conflict (scope, key) do update
    set until = excluded.until, digest = excluded.digest, outcome = null
    where headrace.idempotency_key.until <= coalesce(:now::bigint, headrace.clock())
returning key;

-- name: read_keys
-- The outcomes of keys that were reserved before. The limit lets the server search each by its key.
select u.key, f.digest, f.outcome
from unnest(:keys::text[]) as u (key)
cross join lateral (
    select k.digest, k.outcome from headrace.idempotency_key k
    where k.scope = :scope and k.key = u.key limit 1
) f;

-- name: save_key_outcomes
-- Store the outcome of a key that this transaction reserved.
update headrace.idempotency_key set outcome = :outcome where scope = :scope and key = :key;

-- name: release_key
-- Free a key that this transaction reserved: it had no outcome.
delete from headrace.idempotency_key where scope = :scope and key = :key;
