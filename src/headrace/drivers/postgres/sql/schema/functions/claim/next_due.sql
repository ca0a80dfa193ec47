-- When something happens next in a queue: the end of the first lease, and the first time of that, of a
-- planned item, and of a delayed channel, if there are any.
create function headrace.next_due(
    queue_id integer, moment bigint, has_delays boolean, out lease_end bigint, out due bigint
) language plpgsql as $$
begin
    select (select min(i.lease_until) from headrace.item i
            where i.queue = queue_id and i.state = 2),
           (select min(i.next_execution) from headrace.item i
            where i.queue = queue_id and i.state = 0)
    into lease_end, due;
    due := least(lease_end, due);
    if has_delays then
        due := least(due, (select min(h.until) from headrace.channel_delay h
                           where h.queue = queue_id and h.until > moment));
    end if;
end
$$;
