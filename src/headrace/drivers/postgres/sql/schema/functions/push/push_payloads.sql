-- headrace.push_items for documents that are a payload and nothing else, as most are.
create function headrace.push_payloads(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint, channel text,
    payloads text
) returns table (done text, is_under_way boolean) language plpgsql as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    ids bigint[];
    number bigint;
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
            queue, payload, state, position, next_execution, waiting_since, created_at
        )
        select queue_id, d.payload, 1, sign * nextval('headrace.turn'), moment, moment, moment
        from string_to_table(payloads, E'\x1e') as d (payload)
        returning i.id
    )
    select array_agg(f.id), count(*) into ids, number from fresh f;
    -- In this order, but other transactions may have some ids in between.
    done := case when ids[number] - ids[1] = number - 1 then ids[1] || E'\x1d' || ids[number]
                 else array_to_string(ids, E'\x1e') end;
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done, 0, number, channel);
    return next;
end
$$;
