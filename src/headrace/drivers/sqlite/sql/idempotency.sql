-- Statements on idempotency keys.

-- name: reserve_keys
-- Reserve keys; a key that is in use and has not expired stays as it is and is not returned. A join of
-- the three lists would read two of them again for each key.
insert into headrace_idempotency_key (scope, key, until, digest)
select :scope, k.value,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
           + json_extract(:ttls, '$[' || k.key || ']'),
       json_extract(:digests, '$[' || k.key || ']')
from json_each(:keys) k
where true
on conflict (scope, key) do update
    set until = excluded.until, digest = excluded.digest, outcome = null
    where headrace_idempotency_key.until <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
returning key;

-- name: read_keys
-- The outcomes of keys that were reserved before.
select key, digest, outcome
from headrace_idempotency_key
where scope = :scope and key in (select value from json_each(:keys));

-- name: save_key_outcomes
-- Store the outcome of a key that this transaction reserved.
update headrace_idempotency_key set outcome = :outcome where scope = :scope and key = :key;

-- name: release_key
-- Free a key that this transaction reserved: it had no outcome.
delete from headrace_idempotency_key where scope = :scope and key = :key;
