-- Claim items that are in no channel, in one statement. Returns no row if there is no such queue, and
-- otherwise one of these answers, with the time when the next item is due:
-- - claimed: items holds what was claimed, perhaps nothing.
-- - other: the queue is paused, frozen, or has other settings. Nothing was changed.
-- - short: leases have expired and must be ended first, since items that return may come first in the
--   order. Without limit rules a claim with ignores_expired does not get it. Under rules every claim
--   does: the items occupy slots.
-- - unbound: the counters of the limit rules are not known for this queue at this version of them.
-- With a floor, positions below it are passed over: after many claims under an old snapshot they are
-- full of dead rows. Items in channels are ignored: a queue gets another version with its first
-- channel, but that may happen between two statements.
-- Under limit rules (rule_version > 0) the items are counted, and no more are claimed than there are
-- free slots. Counters that seem nearly full are locked first, others last. If a counter has filled up
-- by then, the statement aborts with the error HR002.
-- The settings are for tables that have not been analysed: the line is read in its order, not sorted.
create function headrace.claim_items(
    queue_id integer, queue_version integer, claim_token text, max_items integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, floor_rank integer, floor_position bigint,
    ignores_expired boolean, moment bigint, rule_version integer
) returns table (
    answer text, next_due bigint, clock bigint, items text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    target headrace.queue;
    promoted bigint := 0;
    times record;
    chosen tid[];
    due bigint;
    word text := 'claimed';
    wanted integer := max_items;
    has_counters boolean := false;
    is_due boolean;
    has_lapsed boolean;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    if target.is_paused or target.version <> queue_version or target.frozen_until > moment then
        word := 'other';
    elsif rule_version > 0 then
        if target.bound_version < rule_version then
            word := 'unbound';
        elsif headrace.has_expired_leases(target.id, moment) then
            word := 'short';
        elsif coalesce(headrace.free_slots(target.checked, target.max_used) < max_items, false) then
            word := headrace.lock_counters(target.counted);
            has_counters := true;
            max_items := least(max_items, headrace.free_slots(target.checked, target.max_used));
        end if;
    end if;
    if word <> 'claimed' then
        return query select word, null::bigint, moment, null::text;
        return;
    end if;
    -- The client flushes a counted claim before it uses the items.
    nothing := set_config('synchronous_commit', 'off', true);
    -- With a floor, leases are not checked: the front of their index may be full of dead rows, too.
    select exists (select from headrace.item i
                   where i.queue = target.id and i.state = 0 and i.next_execution <= moment
                     and i.channel = 0),
           rule_version = 0 and floor_position is null and not ignores_expired and exists (
               select from headrace.item i
               where i.queue = target.id and i.state = 2 and i.lease_until <= moment)
    into is_due, has_lapsed;
    if is_due then
        promoted := headrace.promote_plain_items(target.id, sign, moment);
    end if;
    if has_lapsed then
        word := 'short';
        chosen := '{}';
    elsif floor_position is null then
        chosen := array(
            select i.ctid from headrace.item i
            where i.queue = target.id and i.state = 1 and i.channel = 0
            order by i.rank, i.position limit max_items
            for no key update skip locked);
    else
        chosen := headrace.select_plain_above_floor(
            target.id, max_items, floor_rank, floor_position);
    end if;
    if has_counters then
        update headrace.limit_counter set used = used + cardinality(chosen)
        where id = any(target.counted) and cardinality(chosen) > 0;
        if cardinality(chosen) < wanted then
            perform headrace.wait_on_full_counters(target.id, target.checked, target.max_used);
        end if;
    end if;
    if word = 'claimed' and cardinality(chosen) < wanted then
        times := headrace.next_due(target.id, moment, false);
        due := times.due;
        if times.lease_end <= moment and not ignores_expired then
            word := 'short';
            chosen := '{}';
        end if;
    end if;
    if keeps_counts and (promoted > 0 or cardinality(chosen) > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (target.id, -promoted, promoted - cardinality(chosen), cardinality(chosen),
                cardinality(chosen));
    end if;
    return query
    select word, due, moment, headrace.mark_claimed(chosen, claim_token, claimer, moment, lease);
    if rule_version > 0 and not has_counters and cardinality(chosen) > 0 then
        -- Last, so that counters are locked for a short time.
        nothing := headrace.count_plain_items(
            target.counted, target.checked, target.max_used, cardinality(chosen));
    end if;
end
$$;
