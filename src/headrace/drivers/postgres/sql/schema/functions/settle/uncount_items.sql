-- Decrement the counters of items of a queue that are no longer claimed, given the channel of each item,
-- 0 for none. Returns the counters that have waiters. Null if some channel is not bound to the
-- version of the rules: then the transaction has to be rolled back.
create function headrace.uncount_items(queue_id integer, channels integer[], rule_version integer)
returns integer[] language plpgsql as $$
declare
    ids integer[];
    numbers bigint[];
    is_bound boolean;
    single record;
begin
    single := headrace.single_counter(channels, rule_version);
    if single.counter is not null then
        return headrace.decrement_counters(array[single.counter], array[cardinality(channels)]);
    end if;
    select bool_and(t.is_bound),
           array_agg(t.counter) filter (where t.counter is not null),
           array_agg(t.number) filter (where t.counter is not null)
    into is_bound, ids, numbers
    from (
        select k.counter, bool_and(c.bound_version >= rule_version) as is_bound, sum(h.number) as number
        from (
            select u.id, count(*)::integer as number
            from unnest(channels) as u (id) group by u.id
        ) h
        cross join lateral (
            select f.bound_version, f.counted from headrace.channel f where f.id = h.id
            union all
            select q.bound_version, q.counted from headrace.queue q where q.id = queue_id and h.id = 0
        ) c
        left join lateral unnest(c.counted) as k (counter) on true
        group by k.counter
    ) t;
    if not is_bound then
        return null;
    end if;
    return headrace.decrement_counters(ids, numbers);
end
$$;
