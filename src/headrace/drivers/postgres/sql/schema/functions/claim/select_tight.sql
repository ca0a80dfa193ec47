-- headrace.select_from_channels with counters locked first: counts the items, and passes over channels
-- without free slots. A transaction that has locked counters before (has_others) also passes over
-- channels whose counters another transaction has locked, and says so. visited is the channels that
-- were read for items.
create function headrace.select_tight(
    channels integer[], share integer, wanted integer, has_others boolean,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[], out visited integer[], out full_ones integer[],
    out is_passed_over boolean
) language plpgsql as $$
declare
    found_now record;
begin
    visited := headrace.lock_channel_counters(channels, has_others);
    is_passed_over := cardinality(visited) < cardinality(channels);
    found_now := headrace.channels_with_capacity(visited);
    visited := found_now.open_ones;
    full_ones := found_now.full_ones;
    found_now := headrace.select_counted(visited, share, wanted, '{}');
    items := found_now.items;
    spots := found_now.spots;
    givers := found_now.givers;
    full_ones := full_ones || found_now.full_ones;
end
$$;
