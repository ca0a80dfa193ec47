-- Store what the rules of a version say about some channels, 0 for the queue itself. bounds lists the
-- names of the counters that items count in and of those that must have free slots; entries says which of
-- these each channel has. False if these are no longer the rules of the queue.
create function headrace.bind_channels(
    queue_id integer, rule_version integer, channels integer[], entries integer[], bounds json
) returns boolean language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    perform pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
    perform from headrace.queue q
    where q.id = queue_id and q.is_live and q.limit_version <= rule_version;
    if not found then
        return false;
    end if;
    -- In the order that all transactions use, and before the counters.
    perform from headrace.channel c where c.id = any(channels)
    order by c.key_values for no key update;
    insert into headrace.limit_counter (name, queue, measure)
    select n.name, split_part(n.name, E'\n', 1), split_part(n.name, E'\n', 2)
    from (
        select distinct t.name
        from json_array_elements(bounds) as b (value)
        cross join lateral (
            select e.name from json_array_elements_text(b.value -> 'counted') as e (name)
            union all
            select e.name from json_array_elements_text(b.value -> 'checked') as e (name)
        ) t
        where t.name is not null
    ) n
    where not exists (select from headrace.limit_counter b where b.name = n.name)
    order by n.name collate "C"
    on conflict (name) do nothing;
    with known as materialized (
        select b.n, array(
                   select t.id from json_array_elements_text(b.value -> 'counted') as e (name)
                   join headrace.limit_counter t on t.name = e.name order by t.id) as counted,
               array(
                   select coalesce((select t.id from headrace.limit_counter t where t.name = e.name), 0)
                   from json_array_elements_text(b.value -> 'checked')
                        with ordinality as e (name, n) order by e.n) as checked,
               array(
                   select e.max_used::bigint from json_array_elements_text(b.value -> 'max_used')
                        with ordinality as e (max_used, n) order by e.n) as max_used
        from json_array_elements(bounds) with ordinality as b (value, n)
    ), wanted as (
        select h.channel, k.counted, k.checked, k.max_used
        from rows from (unnest(channels), unnest(entries)) as h (channel, entry)
        join known k on k.n = h.entry
    ), bound as (
        update headrace.channel c
        set bound_version = rule_version, counted = w.counted, checked = w.checked, max_used = w.max_used
        from wanted w where c.id = w.channel and w.channel <> 0
    )
    update headrace.queue q
    set bound_version = rule_version, counted = w.counted, checked = w.checked, max_used = w.max_used
    from wanted w where q.id = queue_id and w.channel = 0;
    return true;
end
$$;
