-- Count what was pushed, store a receipt, and notify waiters. Waiters begin while the push is being
-- flushed: then the answer is true, and the client reports the push as done only after the flush. A
-- push without a receipt is part of a longer transaction, which flushes by its own rules.
-- Here and in other functions a result that does not matter is assigned to a variable: plpgsql
-- evaluates an assignment directly, where PERFORM runs a query.
create function headrace.finish_push(
    queue_id integer, queue_name text, receipt uuid, moment bigint, done text, planned bigint,
    pending bigint, listener text
) returns boolean language plpgsql as $$
declare
    nothing text;
begin
    if receipt is not null then
        -- Without one it is part of a longer transaction, which has said what it waits for.
        nothing := headrace.require_flush();
    end if;
    insert into headrace.tally (queue, id, at, ids, planned, pending, entered)
    values (queue_id, receipt, moment, case when receipt is not null then done end,
            planned, pending, planned + pending);
    if listener is null or planned + pending = 0
       or not exists (select from headrace.waiter where until > headrace.clock()) then
        return false;
    end if;
    nothing := pg_notify(listener, 'queue/' || queue_name);
    if receipt is not null then
        nothing := set_config('synchronous_commit', 'off', true);
    end if;
    return receipt is not null;
end
$$;
