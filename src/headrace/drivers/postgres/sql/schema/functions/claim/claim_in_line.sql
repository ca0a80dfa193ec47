-- headrace.claim_in_turn for the first items in line, whatever their channels, where those are not
-- strict. 'other' also if a channel is delayed.
create function headrace.claim_in_line(
    queue_id integer, queue_version integer, claim_token text, max_items integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, ignores_expired boolean, moment bigint,
    rule_version integer, is_tight boolean
) returns table (
    answer text, next_due bigint, clock bigint, line text, items text, counted text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    start record;
    final record;
    chosen bigint[] := '{}';
    spots tid[] := '{}';
    givers integer[] := '{}';
    full_ones integer[] := '{}';
    unbound integer[] := '{}';
    is_passed_over boolean := false;
    number integer;
    word text;
    named text;
begin
    start := headrace.begin_claim(
        queue_id, queue_version, sign, null, rule_version, not ignores_expired, moment);
    if start.word is null then
        return;
    end if;
    word := start.word;
    moment := start.clock;
    if word <> 'claimed' then
        null;
    elsif is_tight then
        select t.items, t.spots, t.givers, t.full_ones, t.unbound, t.is_passed_over
        into chosen, spots, givers, full_ones, unbound, is_passed_over
        from headrace.select_in_line(queue_id, max_items, rule_version) t;
        word := case when cardinality(unbound) > 0 then 'unbound' else 'claimed' end;
    else
        select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.ctid), '{}'),
               coalesce(array_agg(c.channel), '{}')
        into chosen, spots, givers
        from (
            select i.id, i.ctid, i.channel from headrace.item i
            where i.queue = queue_id and i.state = 1
            order by i.rank, i.position limit max_items
            for no key update skip locked
        ) c;
    end if;
    final := headrace.confirm_selection(
        word, queue_id, givers, cardinality(chosen) < max_items, rule_version, is_tight, ignores_expired,
        moment, false, start.word = 'claimed', full_ones, is_passed_over);
    if final.word = 'unbound' then
        if not is_tight then
            unbound := array(
                select b.id from headrace.bounds_of(queue_id, array(
                    select distinct g.channel from unnest(givers) as g (channel)), rule_version) b
                where not b.is_bound);
        end if;
        select string_agg(u.id || E'\x1f' || coalesce(c.key_values, ''), E'\x1e') into named
        from unnest(unbound) as u (id)
        left join lateral (
            select h.key_values from headrace.channel h where h.id = u.id) c on true;
    end if;
    if final.word <> 'claimed' then
        chosen := '{}';
        spots := '{}';
    end if;
    number := cardinality(chosen);
    if keeps_counts and (start.promoted > 0 or number > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (queue_id, -start.promoted, start.promoted - number, number, number);
    end if;
    return query
    select final.word, final.due, moment, coalesce(named, array_to_string(chosen, ',')),
           headrace.mark_claimed(spots, claim_token, claimer, moment, lease),
           -- For a completion of the whole claim.
           array_to_string(final.ids, ',') || ';' || array_to_string(final.numbers, ',');
    if number = 0 then
        return;
    end if;
    if rule_version > 0 and not is_tight then
        -- Late, so that counters are locked for a short time. They may have filled up meanwhile.
        if not headrace.increment_counters(final.ids, final.numbers, final.limits) then
            raise exception 'no free slots are left' using errcode = 'HR002';
        end if;
    end if;
    nothing := headrace.retire_channels(headrace.empty_channels(array(
        select distinct g.channel from unnest(givers) as g (channel) where g.channel <> 0), false));
end
$$;
