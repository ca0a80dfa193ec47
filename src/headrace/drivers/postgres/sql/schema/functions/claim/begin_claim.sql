-- The first part of a claim on a queue with channels: lock the queue, check that it is open and has the
-- settings, and move planned items that are due to the line. word is null if there is no such queue, and
-- otherwise as in headrace.claim_in_turn. Leases are checked under limit rules, and where the caller
-- asks for it.
create function headrace.begin_claim(
    queue_id integer, queue_version integer, sign integer, selection integer, rule_version integer,
    checks_leases boolean, moment bigint,
    out word text, out clock bigint, out promoted bigint
) language plpgsql as $$
declare
    nothing text;
    target headrace.queue;
    is_due boolean;
    has_lapsed boolean;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    clock := coalesce(moment, headrace.clock());
    promoted := 0;
    if target.is_paused or target.version <> queue_version or target.frozen_until > clock then
        word := 'other';
    elsif selection is not null and headrace.has_unsorted(queue_id, selection) then
        word := 'unsorted';
    elsif rule_version > 0 and headrace.has_expired_leases(queue_id, clock) then
        word := 'short';
    else
        -- The client flushes a counted claim before it uses the items.
        nothing := set_config('synchronous_commit', 'off', true);
        select exists (select from headrace.item i
                       where i.queue = queue_id and i.state = 0 and i.next_execution <= clock),
               rule_version = 0 and checks_leases and exists (
                   select from headrace.item i
                   where i.queue = queue_id and i.state = 2 and i.lease_until <= clock)
        into is_due, has_lapsed;
        if is_due then
            promoted := headrace.promote_items(queue_id, sign, clock);
        end if;
        word := case when has_lapsed then 'short' else 'claimed' end;
    end if;
end
$$;
