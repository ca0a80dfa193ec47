-- Remove channels that have nothing in line from the ready channels, and give those a new turn that
-- have something after all. A transaction that adds an item locks the channel: so this one locks it
-- too, and checks again.
create function headrace.retire_channels(channels integer[]) returns void language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    free integer[];
    gone integer[];
begin
    if cardinality(channels) = 0 then
        return;
    end if;
    free := array(
        select c.id from headrace.channel c where c.id = any(channels) for update skip locked);
    with removed as (
        delete from headrace.ready_channel where channel = any(array(
            select r.channel from headrace.ready_channel r
            where r.channel = any(free)
              and not exists (select from headrace.item i
                              where i.channel = r.channel and i.channel <> 0 and i.state = 1)
            for update skip locked))
        returning channel
    )
    select array_agg(r.channel) into gone from removed r;
    if coalesce(cardinality(gone), 0) < cardinality(channels) then
        update headrace.ready_channel set turn = nextval('headrace.turn')
        where channel = any(array(
            select r.channel from headrace.ready_channel r
            where r.channel = any(channels) and r.channel <> all(coalesce(gone, '{}'))
            for no key update skip locked));
    end if;
end
$$;
