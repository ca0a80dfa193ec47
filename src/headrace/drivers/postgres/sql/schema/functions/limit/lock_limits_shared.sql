-- Lock all limit rules against changes until the transaction ends. For transactions that count and may
-- last, that create a queue, or that give one its first channel.
create function headrace.lock_limits_shared() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1214603636 /* AdvisoryLock.LIMITS */, 0);
end
$$;
