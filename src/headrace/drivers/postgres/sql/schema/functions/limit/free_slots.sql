-- How many more items in no channel may be claimed; null if there is no limit.
create function headrace.free_slots(checked integer[], max_used bigint[])
returns bigint language plpgsql as $$
begin
    return (select greatest(min(m.max_used - coalesce(b.used, 0)), 0)
            from unnest(checked, max_used) as m (counter, max_used)
            left join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b
                on true);
end
$$;
