-- headrace.select_from_channels where the fronts of the lines may be full of dead rows: the items that
-- go before the last claimed one by their priority, and then those behind it.
create function headrace.select_above_floor(
    channels integer[], share integer, wanted integer, moment bigint,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[]
) language plpgsql as $$
begin
    select array_agg(x.id), array_agg(x.spot), array_agg(x.channel), array_agg(x.rank),
           array_agg(x.position)
    into items, spots, givers, ranks, positions
    from (
        select i.id, i.spot, c.channel, i.rank, i.position
        from unnest(channels) as c (channel)
        left join lateral (
            select f.last_rank, f.last_position from headrace.ready_channel f
            where f.channel = c.channel and f.last_look > moment - 1000
            -- Keeps the join in the order of the channels.
            offset 0
        ) r on true
        cross join lateral (
            select u.id, u.spot, u.rank, u.position from (
                select a.* from (
                    select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                    where f.channel = c.channel and f.channel <> 0 and f.state = 1
                      and f.rank < r.last_rank
                    order by f.rank, f.position
                    limit share
                    for no key update skip locked
                ) a
                union all
                select b.* from (
                    select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                    where f.channel = c.channel and f.channel <> 0 and f.state = 1
                      and (f.rank, f.position) > (coalesce(r.last_rank, -2147483648),
                                                  coalesce(r.last_position, 0))
                    order by f.rank, f.position
                    limit share
                    for no key update skip locked
                ) b
            ) u
            limit share
        ) i
        limit wanted
    ) x;
end
$$;
