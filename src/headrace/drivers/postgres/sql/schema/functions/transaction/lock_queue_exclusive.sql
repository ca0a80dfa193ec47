-- Keep all other transactions out of a queue, to change its discipline, to begin to count its items,
-- or to drop it. Transactions that arrive meanwhile wait behind this one: so it waits for a second at
-- most, and the caller tries again.
create function headrace.lock_queue_exclusive(queue_id integer) returns void language plpgsql
set lock_timeout = '1s' as $$
begin
    perform pg_advisory_xact_lock(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
end
$$;
