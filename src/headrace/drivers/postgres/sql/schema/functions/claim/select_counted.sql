-- Select and lock items of channels whose counters are locked, up to a share of each channel, and count
-- them channel by channel, so that a slot is used once. Items in "but" are passed over.
create function headrace.select_counted(
    channels integer[], share integer, wanted integer, but bigint[],
    out items bigint[], out spots tid[], out givers integer[], out full_ones integer[]
) language plpgsql as $$
declare
    channel_id integer;
    bound headrace.channel;
    slots bigint;
    full_now integer[];
    found_now bigint[];
    spots_now tid[];
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    full_ones := '{}';
    foreach channel_id in array channels loop
        exit when cardinality(items) = wanted;
        select c.* into bound from headrace.channel c where c.id = channel_id;
        select min(m.max_used - coalesce(b.used, 0)),
               array_agg(m.counter) filter (where m.counter <> 0 and b.used >= m.max_used)
        into slots, full_now
        from unnest(bound.checked, bound.max_used) as m (counter, max_used)
        left join lateral (select t.used from headrace.limit_counter t where t.id = m.counter) b on true;
        if slots <= 0 then
            full_ones := full_ones || full_now;
            continue;
        end if;
        select array_agg(t.id), array_agg(t.ctid) into found_now, spots_now
        from (
            select f.id, f.ctid from headrace.item f
            where f.channel = channel_id and f.channel <> 0 and f.state = 1 and f.id <> all(but)
            order by f.rank, f.position
            limit least(share, slots, wanted - cardinality(items))
            for no key update skip locked
        ) t;
        if found_now is not null then
            update headrace.limit_counter set used = used + cardinality(found_now)
            where id = any(bound.counted);
            items := items || found_now;
            spots := spots || spots_now;
            givers := givers || array_fill(channel_id, array[cardinality(found_now)]);
        end if;
    end loop;
end
$$;
