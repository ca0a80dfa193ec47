-- A whole commit in one statement: number a row and store it at the end of its topic. Returns no row
-- if there is no such topic. The clock is read after the head is locked. A row that continues the one
-- before it in the same commit has the same time.
create function headrace.append(
    topic_name text, row_id uuid, row_count integer, row_body text, row_headers text,
    continues boolean, moment bigint, channel text
) returns table (base_seq bigint, ts bigint, now bigint) language plpgsql as $$
declare
    nothing text;
    head record;
begin
    nothing := headrace.require_flush();
    update headrace.topic t
    set next_seq = t.next_seq + row_count,
        last_ts = case when continues then t.last_ts
                       else greatest(t.last_ts, coalesce(moment, headrace.clock())) end
    where t.name = topic_name
    returning t.id, t.next_seq - row_count as base_seq, t.last_ts into head;
    if not found then
        return;
    end if;
    insert into headrace.batch (id, topic, base_seq, count, ts, body, headers)
    values (row_id, head.id, head.base_seq, row_count, head.last_ts, row_body, row_headers);
    perform pg_notify(channel, topic_name)
    where channel is not null
      and exists (select from headrace.waiter where until > headrace.clock());
    return query select head.base_seq, head.last_ts, coalesce(moment, headrace.clock());
end
$$;
