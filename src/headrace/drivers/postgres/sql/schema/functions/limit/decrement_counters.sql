-- Decrement counters. Returns those that have waiters.
create function headrace.decrement_counters(ids integer[], numbers bigint[])
returns integer[] language plpgsql as $$
declare
    awaited integer[];
begin
    if cardinality(ids) = 1 then
        update headrace.limit_counter b set used = b.used - numbers[1]
        where b.id = ids[1]
        returning case when b.is_awaited then array[b.id] end into awaited;
        return coalesce(awaited, '{}');
    end if;
    -- One after the other, in their order, as in headrace.increment_counters.
    with changed as (
        update headrace.limit_counter b set used = b.used - n.number
        from (
            select u.counter, u.number
            from unnest(ids, numbers) as u (counter, number) order by u.counter offset 0
        ) n
        where b.id = n.counter
        returning b.id, b.is_awaited
    )
    select coalesce(array_agg(c.id), '{}') into awaited from changed c where c.is_awaited;
    return awaited;
end
$$;
