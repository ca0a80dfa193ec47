-- Lock a queue's settings against changes until the transaction ends. A transaction that adds or
-- counts items locks first and reads the settings afterwards, so that it never works by settings that
-- are gone. An advisory lock, shared by many; it costs no write.
create function headrace.lock_queue_shared(queue_id integer) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
end
$$;
