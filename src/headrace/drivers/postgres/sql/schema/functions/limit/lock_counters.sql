-- Lock counters: 'claimed', or 'unbound' if one no longer exists.
create function headrace.lock_counters(counters integer[]) returns text language plpgsql as $$
declare
    locked bigint;
begin
    select count(*) into locked
    from (select b.id from headrace.limit_counter b where b.id = any(counters)
          order by b.id for no key update) l;
    return case when locked = cardinality(counters) then 'claimed' else 'unbound' end;
end
$$;
