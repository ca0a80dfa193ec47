-- headrace.complete_items where limit rules count running items. woken is the queues whose waiters were
-- notified, divided by U+001E, * for a waiter without a queue. The error HR002 if some channel is not
-- bound to the rules. If the items are a whole claim, counters and numbers say what the claim has
-- counted, by rules of a version.
create function headrace.complete_counted(
    target integer, queue_version integer, claim_tokens text[], items bigint[],
    keeps_counts boolean, receipt uuid, listener text,
    counted_by integer, counters integer[], numbers bigint[]
) returns table (done text, woken text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    nothing text;
    known headrace.queue;
    gone bigint[];
    channels integer[];
    awaited integer[];
    names text[];
begin
    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, target);
    select * into known from headrace.queue q
    where q.id = target and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    -- No flush while counters are locked, since other transactions wait for them: the client flushes.
    nothing := set_config('synchronous_commit', 'off', true);
    with d as (
        delete from headrace.item i
        where i.id = any(items) and i.queue = target
          and i.token = claim_tokens[
              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]
          and i.successor is null
        returning i.id, i.channel
    )
    select coalesce(array_agg(d.id), '{}'), array_agg(d.channel) into gone, channels from d;
    if counted_by = known.limit_version and cardinality(gone) = cardinality(items) then
        awaited := headrace.decrement_counters(counters, numbers);
    else
        awaited := headrace.uncount_items(target, channels, known.limit_version);
    end if;
    if awaited is null then
        raise exception 'some channels are not bound to the rules' using errcode = 'HR002';
    end if;
    done := array_to_string(gone, E'\x1e');
    insert into headrace.tally (queue, id, at, ids, active, processed)
    values (target, receipt, headrace.clock(), done,
            case when keeps_counts then -cardinality(gone) else 0 end,
            case when keeps_counts then cardinality(gone) else 0 end);
    if cardinality(awaited) > 0 then
        -- A statement of its own: it sees waiters that came before this transaction had the lock.
        with ended as (
            delete from headrace.limit_waiter w where w.counter = any(awaited) returning w.queue
        )
        select array_agg(distinct coalesce((select q.name from headrace.queue q
                                            where q.id = e.queue), '*'))
        into names from ended e;
        update headrace.limit_counter b set is_awaited = false where b.id = any(awaited);
        woken := array_to_string(names, E'\x1e');
        perform pg_notify(listener, 'queue/' || n.name) from unnest(names) as n (name)
        where listener is not null
          and exists (select from headrace.waiter where until > headrace.clock());
    end if;
    if cardinality(gone) = cardinality(items) then
        done := 'all';
    end if;
    return next;
end
$$;
