-- The counters that items of a queue count in once they are claimed, given the channel of each item, 0
-- for none: how many items in each, and its limit, in the order in which counters are locked. The word
-- is 'claimed' if there seem to be free slots for all of them, although nothing is locked; 'crowded'
-- if there are not; 'unbound' if some channel is not bound to the version of the rules, or a counter
-- no longer exists.
create function headrace.counters_of(
    queue_id integer, channels integer[], rule_version integer,
    out word text, out ids integer[], out numbers bigint[], out limits bigint[]
) language plpgsql as $$
declare
    single record;
begin
    single := headrace.single_counter(channels, rule_version);
    if single.counter is not null then
        ids := array[single.counter];
        numbers := array[cardinality(channels)];
        limits := array[single.max_used];
        select case when b.used + numbers[1] > single.max_used then 'crowded' else 'claimed' end
        into word
        from headrace.limit_counter b where b.id = single.counter;
        word := coalesce(word, 'unbound');
        return;
    end if;
    with binding as materialized (
        select c.counted, c.checked, c.max_used, c.bound_version >= rule_version as is_bound, h.number
        from (
            select u.id, count(*)::integer as number
            from unnest(channels) as u (id) group by u.id
        ) h
        cross join lateral (
            select f.bound_version, f.counted, f.checked, f.max_used from headrace.channel f
            where f.id = h.id
            union all
            select q.bound_version, q.counted, q.checked, q.max_used from headrace.queue q
            where q.id = queue_id and h.id = 0
        ) c
    )
    select case when not (select bool_and(h.is_bound) from binding h)
                     or bool_or(t.counter <> 0 and b.id is null) then 'unbound'
                when bool_or(t.counter = 0 or b.used + t.number > t.max_used) then 'crowded'
                else 'claimed' end,
           array_agg(t.counter) filter (where t.counter <> 0),
           array_agg(t.number) filter (where t.counter <> 0),
           array_agg(t.max_used) filter (where t.counter <> 0)
    into word, ids, numbers, limits
    from (
        select k.counter, sum(k.number) as number, min(k.max_used) as max_used
        from (
            select unnest(h.counted) as counter, h.number, null::bigint as max_used from binding h
            union all
            select unnest(h.checked), 0, unnest(h.max_used) from binding h
        ) k
        group by k.counter
        order by k.counter
    ) t
    left join headrace.limit_counter b on b.id = t.counter;
end
$$;
