-- Move planned items that are due to the line, in the order in which they became due. Returns how many
-- there were.
create function headrace.promote_items(queue_id integer, sign integer, moment bigint)
returns bigint language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    items bigint[];
    channels integer[];
    promoted bigint := 0;
begin
    loop
        select array_agg(d.id), array_agg(d.channel) into items, channels
        from (
            select i.id, i.channel from headrace.item i
            where i.queue = queue_id and i.state = 0 and i.next_execution <= moment
            order by i.next_execution, i.id
            limit 1000
            for no key update skip locked
        ) d;
        exit when items is null;
        perform from headrace.channel c where c.id = any(channels) order by c.key_values for key share;
        -- Materialized: a plan may read a subquery again for every row, and draw turns each time.
        with turns as materialized (
            select n.id, nextval('headrace.turn') as turn from unnest(items) as n (id)
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from turns t where i.id = t.id;
        insert into headrace.ready_channel (channel, queue, lane, turn)
        select t.channel, queue_id, (select c.lane from headrace.channel c where c.id = t.channel),
               t.turn
        from (
            select d.channel, nextval('headrace.turn') as turn
            from (
                select h.channel from unnest(channels) with ordinality as h (channel, n)
                where h.channel <> 0
                  and not exists (select from headrace.ready_channel r where r.channel = h.channel)
                group by h.channel order by min(h.n)
            ) d
        ) t
        order by t.channel
        on conflict (channel) do nothing;
        promoted := promoted + cardinality(items);
        exit when cardinality(items) < 1000;
    end loop;
    return promoted;
end
$$;
