-- Of some channels whose counters are locked, those with free slots, and the counters that are full for
-- the others.
create function headrace.channels_with_capacity(
    channels integer[], out open_ones integer[], out full_ones integer[]
) language plpgsql as $$
begin
    select array_agg(c.id order by c.n) filter (where not c.is_full) into open_ones
    from (
        select u.id, u.n,
               coalesce(bool_or(coalesce(b.used, 0) >= m.max_used), false) as is_full
        from unnest(channels) with ordinality as u (id, n)
        cross join lateral (select h.checked, h.max_used from headrace.channel h where h.id = u.id) k
        left join lateral unnest(k.checked, k.max_used) as m (counter, max_used) on true
        left join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b on true
        group by u.id, u.n
    ) c;
    open_ones := coalesce(open_ones, '{}');
    full_ones := '{}';
    if cardinality(open_ones) < cardinality(channels) then
        full_ones := array(
            select distinct m.counter
            from unnest(channels) as u (id)
            cross join lateral (
                select h.checked, h.max_used from headrace.channel h where h.id = u.id
            ) k
            cross join lateral unnest(k.checked, k.max_used) as m (counter, max_used)
            cross join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b
            where b.used >= m.max_used);
    end if;
end
$$;
