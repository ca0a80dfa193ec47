-- Increment counters, in their order. False if one of them has no free slots for all of it, or no longer
-- exists: then the transaction has to be rolled back.
create function headrace.increment_counters(ids integer[], numbers bigint[], limits bigint[])
returns boolean language plpgsql as $$
declare
    counted bigint;
begin
    if ids is null then
        return true;
    elsif cardinality(ids) = 1 then
        update headrace.limit_counter b set used = b.used + numbers[1]
        where b.id = ids[1] and (limits[1] is null or b.used + numbers[1] <= limits[1]);
        return found;
    end if;
    -- Each is locked when it is changed, one after the other, and compared as it is then. They are
    -- found by their ids, in this order: no caller lets the server read the whole table.
    update headrace.limit_counter b set used = b.used + n.number
    from (
        select u.counter, u.number, u.max_used
        from unnest(ids, numbers, limits) as u (counter, number, max_used) order by u.counter offset 0
    ) n
    where b.id = n.counter and (n.max_used is null or b.used + n.number <= n.max_used);
    get diagnostics counted = row_count;
    return counted = cardinality(ids);
end
$$;
