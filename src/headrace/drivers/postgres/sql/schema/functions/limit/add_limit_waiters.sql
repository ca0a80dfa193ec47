-- Register a queue as a waiter on counters, which are locked.
create function headrace.add_limit_waiters(queue_id integer, counters integer[])
returns void language plpgsql as $$
begin
    insert into headrace.limit_waiter (counter, queue)
    select distinct t.id, queue_id from unnest(counters) as t (id) where t.id <> 0
    on conflict (counter, queue) do nothing;
    update headrace.limit_counter set is_awaited = true where id = any(counters) and not is_awaited;
end
$$;
