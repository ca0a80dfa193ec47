-- Give channels a new turn after they gave items, in the order of the first item of each, and store the
-- place of the last item. givers, ranks and positions are of the items; emptied channels get no turn.
create function headrace.renew_turns(
    givers integer[], ranks integer[], positions bigint[], emptied integer[], has_floor boolean,
    moment bigint
) returns void language plpgsql as $$
declare
    turns bigint[];
begin
    select array_agg(g.channel order by g.first), array_agg(g.rank order by g.first),
           array_agg(g.place order by g.first)
    into givers, ranks, positions
    from (
        select g.channel, min(g.n) as first, (array_agg(g.rank order by g.n desc))[1] as rank,
               (array_agg(g.place order by g.n desc))[1] as place
        from rows from (unnest(givers), unnest(ranks), unnest(positions))
            with ordinality as g (channel, rank, place, n)
        where g.channel <> all(emptied)
        group by g.channel
    ) g;
    turns := array(select nextval('headrace.turn') from generate_series(1, cardinality(givers)));
    update headrace.ready_channel r
    set turn = t.turn, last_rank = t.rank, last_position = t.place,
        last_look = case when has_floor and r.last_look > moment - 1000
                         then r.last_look else moment end
    from (
        select l.channel, s.turn, s.rank, s.place
        from rows from (unnest(givers), unnest(turns), unnest(ranks), unnest(positions))
            as s (channel, turn, rank, place)
        cross join lateral (
            select f.channel from headrace.ready_channel f where f.channel = s.channel
            for no key update skip locked
        ) l
    ) t
    where r.channel = t.channel;
end
$$;
