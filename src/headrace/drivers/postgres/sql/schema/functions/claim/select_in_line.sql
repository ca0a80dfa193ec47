-- Select and lock items in line, page by page, while there are free slots for some, and count each.
-- Counters are locked before. A transaction that has locked some already passes over items whose
-- counters another transaction has locked.
create function headrace.select_in_line(
    queue_id integer, wanted integer, rule_version integer,
    out items bigint[], out spots tid[], out givers integer[], out full_ones integer[],
    out unbound integer[], out is_passed_over boolean
) language plpgsql as $$
declare
    page integer := greatest(wanted, 50);
    last_rank integer := -2147483648;
    last_position bigint := -9223372036854775808;
    has_counters boolean := false;
    entry record;
    spot tid;
    number integer;
    channels integer[];
    counters integer[];
    locked integer[] := '{}';
    -- Channels without free slots.
    shut integer[] := '{}';
    slots bigint;
    full_now integer[];
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    full_ones := '{}';
    unbound := '{}';
    is_passed_over := false;
    loop
        channels := array(
            select distinct p.channel from (
                select i.channel from headrace.item i
                where i.queue = queue_id and i.state = 1
                  and (i.rank, i.position) > (last_rank, last_position)
                order by i.rank, i.position limit page) p
            where p.channel <> all(shut));
        unbound := array(select b.id from headrace.bounds_of(queue_id, channels, rule_version) b
                         where not b.is_bound);
        exit when cardinality(unbound) > 0;
        counters := array(
            select distinct k.counter from headrace.bounds_of(queue_id, channels, rule_version) b
            cross join lateral unnest(b.counted) as k (counter)
            where k.counter <> all(locked));
        if has_counters then
            locked := locked || array(
                select b.id from headrace.limit_counter b where b.id = any(counters)
                order by b.id for no key update skip locked);
            full_now := array(
                select b.id from headrace.bounds_of(queue_id, channels, rule_version) b
                where not b.counted <@ locked);
            is_passed_over := is_passed_over or cardinality(full_now) > 0;
            shut := shut || full_now;
        else
            locked := array(
                select b.id from headrace.limit_counter b where b.id = any(counters)
                order by b.id for no key update);
            has_counters := true;
        end if;
        number := 0;
        for entry in
            select i.id, i.channel, i.rank, i.position from headrace.item i
            where i.queue = queue_id and i.state = 1
              and (i.rank, i.position) > (last_rank, last_position)
            order by i.rank, i.position limit page
        loop
            number := number + 1;
            last_rank := entry.rank;
            last_position := entry.position;
            continue when entry.channel = any(shut) or entry.channel <> all(channels);
            select min(m.max_used - coalesce(t.used, 0)),
                   array_agg(m.counter) filter (where m.counter <> 0 and t.used >= m.max_used)
            into slots, full_now
            from headrace.bounds_of(queue_id, array[entry.channel], rule_version) b
            cross join lateral unnest(b.checked, b.max_used) as m (counter, max_used)
            left join lateral (select u.used from headrace.limit_counter u where u.id = m.counter) t on true;
            if slots <= 0 then
                shut := shut || entry.channel;
                full_ones := full_ones || full_now;
                continue;
            end if;
            select i.ctid into spot from headrace.item i where i.id = entry.id and i.state = 1
            for no key update skip locked;
            continue when not found;
            update headrace.limit_counter t set used = t.used + 1
            from headrace.bounds_of(queue_id, array[entry.channel], rule_version) b
            where t.id = any(b.counted);
            items := items || entry.id;
            spots := spots || spot;
            givers := givers || entry.channel;
            exit when cardinality(items) = wanted;
        end loop;
        exit when cardinality(items) = wanted or number < page;
        page := 1000;
    end loop;
end
$$;
