-- Make COMMIT of this transaction wait for the flush of its WAL, whatever the server's default is or
-- becomes before that. Any default but off flushes too, and may wait for standbys: it is kept. A store
-- that is relaxed sets the parameter headrace.relaxed.
create function headrace.require_flush() returns text language sql as $$
    select case when current_setting('headrace.relaxed', true) = 'on' then null
                else set_config('synchronous_commit',
                                replace(current_setting('synchronous_commit'), 'off', 'on'), true) end
$$;
