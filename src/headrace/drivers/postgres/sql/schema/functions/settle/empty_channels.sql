-- Which channels have nothing in line. has_dead_rows: there may be many rows that cannot be removed yet,
-- but hardly any behind the last position that was claimed.
create function headrace.empty_channels(channels integer[], has_dead_rows boolean)
returns integer[] language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    if has_dead_rows then
        channels := array(
            select c.channel from unnest(channels) as c (channel)
            left join lateral (
                select f.last_rank, f.last_position from headrace.ready_channel f
                where f.channel = c.channel
            ) r on true
            where not exists (
                select from headrace.item i
                where i.channel = c.channel and i.channel <> 0 and i.state = 1
                  and (i.rank, i.position) > (r.last_rank, r.last_position)));
    end if;
    return array(
        select c.channel from unnest(channels) as c (channel)
        where not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 1));
end
$$;
