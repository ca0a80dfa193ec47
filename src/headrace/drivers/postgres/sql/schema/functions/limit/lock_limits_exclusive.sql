-- Keep all other transactions from counting by limit rules, to change the rules.
create function headrace.lock_limits_exclusive() returns void language plpgsql
set lock_timeout = '1s' as $$
begin
    perform pg_advisory_xact_lock(1214603636 /* AdvisoryLock.LIMITS */, 0);
end
$$;
