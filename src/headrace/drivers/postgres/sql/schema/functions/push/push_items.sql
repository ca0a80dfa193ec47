-- Push new documents to a queue in one statement. Returns no row if the queue's settings do not have
-- the given version. Otherwise done is what a receipt says (see headrace.tally), null if all subjects
-- are in use; is_under_way says that the push may not be flushed yet (see headrace.finish_push).
-- See headrace.document_rows for the documents.
create function headrace.push_items(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text,
    ranks text, payloads text, formats text, subjects text, priorities text, dues text,
    delays text, headerses text, overrideses text
) returns table (done text, is_under_way boolean) language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    planned bigint;
    pending bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    with fresh as (
        insert into headrace.item as i (
            queue, rank, payload, format, subject, priority, state, position,
            next_execution, waiting_since, created_at, headers, overrides
        )
        select queue_id, d.rank, d.payload, d.format, d.subject, d.priority,
               case when d.due <= moment then 1 else 0 end,
               case when d.due <= moment then sign * nextval('headrace.turn') end,
               d.due, moment, moment, d.headers, d.overrides
        from (
            select r.* from headrace.document_rows(
                null, ranks, payloads, formats, subjects, priorities, dues, delays, headerses,
                overrideses, moment) r
            order by r.n
        ) d
        on conflict (queue, subject) where i.subject is not null do nothing
        returning i.id, i.subject, i.state
    )
    select string_agg(f.id::text || coalesce(E'\x1f' || f.subject, ''), E'\x1e'),
           count(*) filter (where f.state = 0), count(*) filter (where f.state = 1)
    into done, planned, pending from fresh f;
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done, planned, pending, channel);
    return next;
end
$$;
