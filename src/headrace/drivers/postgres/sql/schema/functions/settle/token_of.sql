-- The token of the claim on an item of a queue, null if it is not claimed. By key, even if a table is
-- so small that another plan would be cheaper: see headrace.claim_items.
create function headrace.token_of(queue_id integer, item_id bigint) returns text language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    return (select i.token from headrace.item i where i.id = item_id and i.queue = queue_id);
end
$$;
