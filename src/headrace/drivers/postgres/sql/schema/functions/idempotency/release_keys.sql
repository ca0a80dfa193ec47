-- Free keys that this transaction reserved: their calls wrote nothing. One by one, since for a list
-- of keys the server may read all keys of the scope.
create function headrace.release_keys(key_scope text, keys text[]) returns void language plpgsql as $$
#variable_conflict use_column
declare
    reserved text;
begin
    foreach reserved in array coalesce(keys, '{}') loop
        delete from headrace.idempotency_key k where k.scope = key_scope and k.key = reserved;
    end loop;
end
$$;
