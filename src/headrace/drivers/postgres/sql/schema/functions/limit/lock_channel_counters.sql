-- Lock the counters of some channels. A transaction that has locked counters before (has_others) must
-- not wait: then the answer is only those channels whose counters no other transaction has locked.
create function headrace.lock_channel_counters(channels integer[], has_others boolean)
returns integer[] language plpgsql as $$
declare
    ids integer[] := array(
        select distinct k.counter
        from unnest(channels) as u (id)
        cross join lateral (select h.counted from headrace.channel h where h.id = u.id) c
        cross join lateral unnest(c.counted) as k (counter));
    locked integer[];
begin
    if has_others then
        locked := array(
            select b.id from headrace.limit_counter b where b.id = any(ids)
            order by b.id for no key update skip locked);
    else
        locked := array(
            select b.id from headrace.limit_counter b where b.id = any(ids)
            order by b.id for no key update);
    end if;
    if cardinality(locked) = cardinality(ids) then
        return channels;
    end if;
    return array(
        select u.id from unnest(channels) with ordinality as u (id, n)
        cross join lateral (select h.counted from headrace.channel h where h.id = u.id) c
        where c.counted <@ locked
        order by u.n);
end
$$;
