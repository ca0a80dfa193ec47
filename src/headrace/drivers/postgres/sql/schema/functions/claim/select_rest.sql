-- Select and lock more items of channels that gave a whole quantum, until there are as many as wanted or
-- no channel has more. gave is the channel of each item so far, chosen the items.
create function headrace.select_rest(
    gave integer[], quantum integer, wanted integer, chosen bigint[], is_tight boolean,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[], out full_ones integer[]
) language plpgsql as $$
declare
    share integer := quantum;
    candidates integer[];
    got record;
begin
    while wanted > 0 loop
        candidates := array(
            select g.channel from unnest(gave) with ordinality as g (channel, n)
            group by g.channel having count(*) = share order by min(g.n));
        exit when cardinality(candidates) = 0;
        share := greatest(quantum, ceil(wanted::numeric / cardinality(candidates)));
        if is_tight then
            got := headrace.select_counted(candidates, share, wanted, chosen);
            full_ones := full_ones || got.full_ones;
        else
            got := headrace.select_from_channels(candidates, share, wanted, chosen);
            ranks := ranks || got.ranks;
            positions := positions || got.positions;
        end if;
        exit when coalesce(cardinality(got.items), 0) = 0;
        gave := got.givers;
        chosen := chosen || got.items;
        items := items || got.items;
        spots := spots || got.spots;
        givers := givers || got.givers;
        wanted := wanted - cardinality(got.items);
    end loop;
end
$$;
