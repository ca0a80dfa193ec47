-- The last check of a claim on a queue with channels, when its items are selected and locked. givers is
-- the channel of each item; is_short: there are fewer than wanted. The word changes if a channel is
-- delayed (is_any_delay: any channel of the queue), if there are no free slots, or if expired leases have
-- to be ended first. If it is no longer 'claimed', counters that were locked first are released. The
-- result has the counters to increment later, and the time when something is due next.
create function headrace.confirm_selection(
    inout word text, queue_id integer, givers integer[], is_short boolean, rule_version integer,
    is_tight boolean, ignores_expired boolean, moment bigint, has_delays boolean, is_any_delay boolean,
    full_ones integer[], is_passed_over boolean,
    out due bigint, out ids integer[], out numbers bigint[], out limits bigint[]
) language plpgsql as $$
declare
    nothing text;
    counts record;
    times record;
begin
    -- Checked again after the items are locked: a transaction that returns items to the line and delays
    -- their channel commits both together.
    if is_any_delay then
        perform from headrace.channel_delay h
        where h.queue = queue_id and h.until > moment limit 1;
    elsif word = 'claimed' then
        perform from headrace.channel_delay h
        join headrace.channel k on k.queue = h.queue and k.key_values = h.key_values
        where h.queue = queue_id and h.until > moment and k.id = any(givers) limit 1;
    end if;
    if found and (is_any_delay or word = 'claimed') then
        word := 'other';
    end if;
    if rule_version > 0 and not is_tight and word = 'claimed' then
        counts := headrace.counters_of(queue_id, givers, rule_version);
        word := counts.word;
        ids := counts.ids;
        numbers := counts.numbers;
        limits := counts.limits;
    end if;
    if word = 'claimed' and is_short then
        times := headrace.next_due(queue_id, moment, has_delays);
        due := times.due;
        if times.lease_end <= moment and not ignores_expired then
            word := 'short';
        end if;
    end if;
    if word <> 'claimed' then
        if is_tight then
            nothing := headrace.uncount_items(queue_id, givers, 0);
        end if;
    elsif is_tight and is_short then
        nothing := headrace.add_limit_waiters(queue_id, full_ones);
        if is_passed_over then
            -- The transactions that have locked their counters do not know of this waiter.
            due := least(due, moment + 10);
        end if;
    end if;
end
$$;
