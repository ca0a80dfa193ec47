-- What is stored about some channels of a queue, 0 for the queue itself, whether it is of a version of
-- the rules, and whether all counters exist.
create function headrace.bounds_of(queue_id integer, channels integer[], rule_version integer)
returns table (id integer, counted integer[], checked integer[], max_used bigint[], is_bound boolean)
language sql stable as $$
    select c.id, c.counted, c.checked, c.max_used,
           c.bound_version >= rule_version
           and not exists (select from unnest(c.counted) as k (counter)
                           where not exists (select from headrace.limit_counter b where b.id = k.counter))
    from (
        select h.id, h.bound_version, h.counted, h.checked, h.max_used
        from headrace.channel h where h.id = any(channels)
        union all
        select 0, q.bound_version, q.counted, q.checked, q.max_used
        from headrace.queue q where q.id = queue_id and 0 = any(channels)
    ) c
$$;
