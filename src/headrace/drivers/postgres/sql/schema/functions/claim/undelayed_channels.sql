-- Which of some channels are not delayed, in the same order.
create function headrace.undelayed_channels(channels integer[], moment bigint)
returns integer[] language plpgsql as $$
begin
    return array(
        select c.channel from unnest(channels) with ordinality as c (channel, n)
        where not exists (
            select from headrace.channel k
            join headrace.channel_delay h on h.queue = k.queue and h.key_values = k.key_values
            where k.id = c.channel and h.until > moment)
        order by c.n);
end
$$;
