-- Claim items of channels that take turns, in one statement: of all channels of the queue, of those of
-- a selection, or of those that the caller names, in the order of their turns. Each channel gives up
-- to a quantum of items; if that is not enough, those that have more share the rest. Further answers
-- to those of headrace.claim_items:
-- - more: there were not enough items, and not all channels were named.
-- - unsorted: for some channels it is not known whether the selection includes them.
-- - floored: there were not enough items above the floor; repeat without a floor.
-- - crowded: a counter has no free slots for all of the items. Repeat with is_tight: then counters are
--   locked first, and each channel gives as many items as there are free slots.
-- - unbound: line names channels whose counters are not known.
-- It also returns the time when the next item is due, and the order of the items.
create function headrace.claim_in_turn(
    queue_id integer, queue_version integer, claim_token text, max_items integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, quantum integer, is_strict boolean,
    selection integer, asked integer[], are_all boolean, ignores_expired boolean, moment bigint,
    rule_version integer, is_tight boolean, floor_turn bigint
) returns table (
    answer text, next_due bigint, clock bigint, line text, first_turn bigint, items text,
    counted text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    start record;
    -- The items: see headrace.select_in_turn and headrace.select_rest.
    found_now record;
    rest record;
    final record;
    has_delays boolean;
    number integer;
    word text;
    unbound text;
    emptied integer[];
begin
    has_delays := exists (select from headrace.channel_delay h
                          where h.queue = queue_id
                            and h.until > coalesce(moment, headrace.clock()));
    start := headrace.begin_claim(
        queue_id, queue_version, sign, selection, rule_version,
        floor_turn is null and not ignores_expired, moment);
    if start.word is null then
        return;
    end if;
    moment := start.clock;
    found_now := headrace.select_in_turn(
        start.word, queue_id, max_items, case when is_strict then 1 else quantum end, is_strict,
        selection, asked, has_delays, moment, rule_version, is_tight, floor_turn);
    word := found_now.word;
    if word = 'claimed' and cardinality(found_now.items) < max_items then
        if floor_turn is not null then
            -- The caller repeats it without a floor.
            word := 'floored';
        elsif asked is not null and (not are_all or start.promoted > 0) then
            -- The caller does not know of channels that have just got their first item.
            word := 'more';
        elsif selection is not null and start.promoted > 0
              and headrace.has_unsorted(queue_id, selection) then
            word := 'unsorted';
        elsif not is_strict and cardinality(found_now.items) > 0 then
            rest := headrace.select_rest(
                found_now.givers, quantum, max_items - cardinality(found_now.items), found_now.items,
                is_tight);
            found_now.items := found_now.items || rest.items;
            found_now.spots := found_now.spots || rest.spots;
            found_now.givers := found_now.givers || rest.givers;
            found_now.ranks := found_now.ranks || rest.ranks;
            found_now.positions := found_now.positions || rest.positions;
            found_now.full_ones := found_now.full_ones || rest.full_ones;
        end if;
    end if;
    final := headrace.confirm_selection(
        word, queue_id, found_now.givers, cardinality(found_now.items) < max_items, rule_version,
        is_tight, ignores_expired, moment, has_delays, false, found_now.full_ones,
        found_now.is_passed_over);
    if final.word = 'unbound' then
        -- Those that come next, too.
        unbound := headrace.unbound_channels(
            queue_id, selection, found_now.candidates || found_now.givers, found_now.seen, rule_version);
    end if;
    if final.word <> 'claimed' then
        found_now.items := '{}';
        found_now.spots := '{}';
    end if;
    number := cardinality(found_now.items);
    if keeps_counts and (start.promoted > 0 or number > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (queue_id, -start.promoted, start.promoted - number, number, number);
    end if;
    return query
    select final.word, final.due, moment,
           coalesce(unbound, array_to_string(found_now.items, ',')), found_now.first_seen,
           headrace.mark_claimed(found_now.spots, claim_token, claimer, moment, lease),
           -- For a completion of the whole claim.
           array_to_string(final.ids, ',') || ';' || array_to_string(final.numbers, ',');
    emptied := headrace.empty_channels(found_now.visited, floor_turn is not null);
    if number > 0 then
        nothing := headrace.renew_turns(
            found_now.givers, found_now.ranks, found_now.positions, emptied,
            floor_turn is not null, moment);
        if rule_version > 0 and not is_tight then
            -- Late, so that counters are locked for a short time. They may have filled up meanwhile.
            if not headrace.increment_counters(final.ids, final.numbers, final.limits) then
                raise exception 'no free slots are left' using errcode = 'HR002';
            end if;
        end if;
    end if;
    -- After the counters: a transaction that waits for a counter has no channel locked.
    nothing := headrace.retire_channels(emptied);
end
$$;
