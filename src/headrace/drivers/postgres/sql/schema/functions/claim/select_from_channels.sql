-- Select and lock items of channels, in the order of the channels, up to a share of each. Items in "but"
-- are passed over.
create function headrace.select_from_channels(
    channels integer[], share integer, wanted integer, but bigint[],
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
        cross join lateral (
            select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
            where f.channel = c.channel and f.channel <> 0 and f.state = 1 and f.id <> all(but)
            order by f.rank, f.position
            limit share
            for no key update skip locked
        ) i
        limit wanted
    ) x;
end
$$;
