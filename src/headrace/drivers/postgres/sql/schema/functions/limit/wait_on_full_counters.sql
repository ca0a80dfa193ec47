-- Register a queue as a waiter on those of some counters that are full; all of them are locked.
create function headrace.wait_on_full_counters(queue_id integer, checked integer[], max_used bigint[])
returns void language plpgsql as $$
begin
    perform headrace.add_limit_waiters(queue_id, array(
        select m.counter from unnest(checked, max_used) as m (counter, max_used)
        cross join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b
        where b.used >= m.max_used));
end
$$;
