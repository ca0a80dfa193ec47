-- Statements on keys that count only once.

-- name: take_once
-- Take keys; a key that is taken and has not run out stays as it is and is not returned.
insert into headrace.once (scope, key, until, digest)
select :scope, u.key, coalesce(:now::bigint, headrace.clock()) + u.ttl, u.digest
from unnest(:keys::text[], :ttls::bigint[], :digests::text[]) u (key, ttl, digest)
order by u.key
on conflict (scope, key) do update
    set until = excluded.until, digest = excluded.digest, outcome = null
    where headrace.once.until <= coalesce(:now::bigint, headrace.clock())
returning key;

-- name: read_once
-- What came of keys that were taken before.
select key, digest, outcome
from headrace.once
where scope = :scope and key = any(:keys::text[]);

-- name: settle_once
-- Remember what came of a key taken in this transaction.
update headrace.once set outcome = :outcome where scope = :scope and key = :key;

-- name: give_once
-- Give back a key taken in this transaction: nothing came of it.
delete from headrace.once where scope = :scope and key = :key;
