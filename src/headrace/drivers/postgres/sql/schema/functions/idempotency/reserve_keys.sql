-- Reserve keys for new calls, before anything else is locked. Null if all of them were free or had
-- expired. Otherwise none is reserved, and the answer is a JSON list of those in use, each with its
-- digest and its outcome. The functions that call it make sure that tables are searched by keys.
create function headrace.reserve_keys(
    key_scope text, keys text[], digests text[], ttls bigint[], moment bigint
) returns text language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    reserved text[];
begin
    moment := coalesce(moment, headrace.clock());
    with fresh as (
        insert into headrace.idempotency_key as k (scope, key, until, digest)
        select key_scope, u.key, moment + u.ttl, u.digest
        from unnest(keys, digests, ttls) as u (key, digest, ttl)
        order by u.key
        on conflict (scope, key) do update
            set until = excluded.until, digest = excluded.digest, outcome = null
            where k.until <= moment
        returning k.key
    )
    select array_agg(f.key) into reserved from fresh f;
    if cardinality(reserved) is not distinct from nullif(cardinality(keys), 0) then
        return null;
    end if;
    nothing := headrace.release_keys(key_scope, reserved);
    -- An outcome may belong to a push that is not flushed yet. The insert has locked the rows in use,
    -- so this transaction has something to commit, and its flush includes the push.
    nothing := headrace.require_flush();
    return (select json_agg(json_build_array(u.key, f.digest, f.outcome))
            from unnest(keys) as u (key)
            cross join lateral (
                select k.digest, k.outcome from headrace.idempotency_key k
                where k.scope = key_scope and k.key = u.key
                limit 1  -- so that each is searched by its key
            ) f);
end
$$;
