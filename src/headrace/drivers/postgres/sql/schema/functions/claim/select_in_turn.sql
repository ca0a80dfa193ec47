-- Select and lock items of ready channels in the order of their turns, or of the channels that the
-- caller names (asked), up to a share of each. See headrace.claim_in_turn for the other parameters; it
-- selects nothing if the word is not 'claimed'. visited is the channels that were read for items,
-- candidates the last of them, seen and first_seen the last and the first turn; full_ones are counters
-- without free slots; is_passed_over: a counter was locked by another transaction.
create function headrace.select_in_turn(
    inout word text, queue_id integer, wanted integer, share integer, is_strict boolean,
    selection integer, asked integer[], has_delays boolean, moment bigint, rule_version integer,
    is_tight boolean, floor_turn bigint,
    out items bigint[], out spots tid[], out givers integer[], out ranks integer[],
    out positions bigint[], out visited integer[], out candidates integer[], out seen bigint,
    out first_seen bigint, out full_ones integer[], out is_passed_over boolean
) language plpgsql as $$
declare
    -- How many channels are read together.
    width integer := least(greatest(wanted, 10), 1000);
    number integer;
    first_now bigint;
    got record;
begin
    items := '{}';
    spots := '{}';
    givers := '{}';
    ranks := '{}';
    positions := '{}';
    visited := '{}';
    full_ones := '{}';
    seen := coalesce(floor_turn, -1);
    while word = 'claimed' loop
        if asked is not null then
            candidates := asked;
        else
            select array_agg(r.channel), max(r.turn), min(r.turn) into candidates, seen, first_now
            from (
                select n.channel, n.turn
                -- In the same statement: another transaction may be moving channels to new lanes.
                from (
                    select 0 as id where selection is null
                    union all
                    select k.id from headrace.lane k
                    where k.queue = queue_id
                      and (selection is null or k.selections like '%,' || selection || ',%')
                ) l
                cross join lateral (
                    select f.channel, f.turn from headrace.ready_channel f
                    where f.queue = queue_id and f.lane = l.id and f.turn > seen
                    order by f.turn limit width
                ) n
                order by n.turn limit width
            ) r;
            first_seen := coalesce(first_seen, first_now);
        end if;
        exit when candidates is null;
        number := cardinality(candidates);
        if has_delays then
            candidates := headrace.undelayed_channels(candidates, moment);
        end if;
        if is_strict then
            candidates := headrace.idle_channels(candidates);
        end if;
        if is_tight and exists (
            select from headrace.bounds_of(queue_id, candidates, rule_version) b where not b.is_bound
        ) then
            word := 'unbound';
            exit;
        end if;
        if is_tight then
            got := headrace.select_tight(
                candidates, share, wanted - cardinality(items), is_passed_over is not null);
            candidates := got.visited;
            full_ones := full_ones || got.full_ones;
            is_passed_over := coalesce(is_passed_over, false) or got.is_passed_over;
        elsif floor_turn is not null then
            got := headrace.select_above_floor(
                candidates, share, wanted - cardinality(items), moment);
        else
            got := headrace.select_from_channels(
                candidates, share, wanted - cardinality(items), '{}');
        end if;
        items := items || got.items;
        spots := spots || got.spots;
        givers := givers || got.givers;
        ranks := ranks || got.ranks;
        positions := positions || got.positions;
        if cardinality(items) = wanted then
            visited := visited
                || candidates[1 : array_position(candidates, givers[cardinality(givers)])];
            exit;
        end if;
        visited := visited || candidates;
        exit when asked is not null or number < width;
        width := least(4 * width, 1000);
    end loop;
end
$$;
