-- Store the outcomes of keys that this transaction reserved. An insert finds the rows by their keys;
-- for an update that joins them the server may read all keys of the scope.
create function headrace.save_key_outcomes(key_scope text, keys text[], outcomes text[])
returns void language plpgsql as $$
#variable_conflict use_column
begin
    insert into headrace.idempotency_key as k (scope, key, until, outcome)
    select key_scope, u.key, 0, u.outcome
    from unnest(keys, outcomes) as u (key, outcome)
    on conflict (scope, key) do update set outcome = excluded.outcome;
end
$$;
