-- Complete items that are not kept, in one statement; those with a successor stay. There is one token
-- for all of them, or one for each. Returns no row, and changes nothing, if the queue's settings do
-- not have the given version; otherwise what a receipt says (see headrace.tally), or 'all' if all of
-- the items were completed.
create function headrace.complete_items(
    target integer, queue_version integer, claim_tokens text[], items bigint[],
    keeps_counts boolean, receipt uuid
) returns setof text language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    nothing text;
    done text;
    number bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, target);
    perform from headrace.queue q
    where q.id = target and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    nothing := headrace.require_flush();
    with gone as (
        delete from headrace.item i
        where i.id = any(items) and i.queue = target
          and i.token = claim_tokens[
              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]
          and i.successor is null
        returning i.id
    )
    select string_agg(g.id::text, E'\x1e'), count(*) into done, number from gone g;
    insert into headrace.tally (queue, id, at, ids, active, processed)
    values (target, receipt, headrace.clock(), done,
            case when keeps_counts then -number else 0 end,
            case when keeps_counts then number else 0 end);
    return next case when number = cardinality(items) then 'all' else done end;
end
$$;
