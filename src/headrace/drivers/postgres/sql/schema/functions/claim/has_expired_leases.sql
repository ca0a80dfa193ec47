-- Whether leases have expired that occupy slots: of items of a queue, or of counters.
create function headrace.has_expired_leases(queue_id integer, moment bigint)
returns boolean language plpgsql as $$
begin
    return exists (select from headrace.item i
                   where i.queue = queue_id and i.state = 2 and i.lease_until <= moment)
        or exists (select from headrace.counter c where c.until <= moment);
end
$$;
