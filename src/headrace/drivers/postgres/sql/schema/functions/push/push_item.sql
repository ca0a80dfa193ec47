-- headrace.push_items for one document, the most frequent push.
create function headrace.push_item(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text,
    item_rank integer, item_payload text, item_format smallint, item_subject text,
    item_priority integer, due bigint, delay bigint, item_headers text, item_overrides text
) returns table (done text, is_under_way boolean) language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    number bigint;
    is_due boolean;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    due := coalesce(due, moment + coalesce(delay, 0));
    is_due := due <= moment;
    insert into headrace.item as i (
        queue, rank, payload, format, subject, priority, state, position,
        next_execution, waiting_since, created_at, headers, overrides
    )
    values (queue_id, item_rank, item_payload, item_format, item_subject, item_priority,
            is_due::integer, case when is_due then sign * nextval('headrace.turn') end,
            due, moment, moment, item_headers, item_overrides)
    on conflict (queue, subject) where i.subject is not null do nothing
    returning i.id into number;
    done := number::text || coalesce(E'\x1f' || item_subject, '');
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done,
        (number is not null and not is_due)::integer, (number is not null and is_due)::integer,
        channel);
    return next;
end
$$;
