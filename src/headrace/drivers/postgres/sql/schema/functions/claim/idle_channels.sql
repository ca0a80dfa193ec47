-- Which of some strict channels, in this order, may give an item to this transaction: those without an
-- item in flight, and without one that will return to its position. Locks them.
create function headrace.idle_channels(channels integer[]) returns integer[] language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    locked integer[];
begin
    locked := array(
        select l.channel from unnest(channels) as c (channel)
        cross join lateral (
            select r.channel from headrace.ready_channel r where r.channel = c.channel
            for no key update skip locked
        ) l);
    -- A statement of its own: it sees claims that came before this transaction had the lock.
    return array(
        select c.channel from unnest(locked) as c (channel)
        where not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 2)
          and not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 0
                            and i.position is not null));
end
$$;
