-- Statements on keys that count only once.

-- name: take_once
-- Take keys; a key that is taken and has not run out stays as it is and is not returned.
insert into headrace_once (scope, key, until, digest)
select :scope, k.value, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) + t.value, d.value
from json_each(:keys) k
join json_each(:ttls) t on t.key = k.key
join json_each(:digests) d on d.key = k.key
where true
on conflict (scope, key) do update
    set until = excluded.until, digest = excluded.digest, outcome = null
    where headrace_once.until <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
returning key;

-- name: read_once
-- What came of keys that were taken before.
select key, digest, outcome
from headrace_once
where scope = :scope and key in (select value from json_each(:keys));

-- name: settle_once
-- Remember what came of a key taken in this transaction.
update headrace_once set outcome = :outcome where scope = :scope and key = :key;

-- name: give_once
-- Give back a key taken in this transaction: nothing came of it.
delete from headrace_once where scope = :scope and key = :key;
