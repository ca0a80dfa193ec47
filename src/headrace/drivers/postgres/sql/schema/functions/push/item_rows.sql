-- Items to store as rows, column by column: see headrace.document_rows. A column that is null is null in
-- all rows, or 0 for the channel; a payload that is null is empty.
create function headrace.item_rows(
    queues text, ranks text, payloads text, formats text, subjects text, priorities text,
    states text, positions text, next_executions text, waiting_sinces text, created_ats text,
    headerses text, overrideses text, channels text, key_valueses text
) returns table (
    queue integer, rank integer, payload text, format smallint, subject text, priority integer,
    state smallint, "position" bigint, next_execution bigint, waiting_since bigint,
    created_at bigint, headers text, overrides text, channel integer, key_values text, n bigint
) language sql stable as $$
    select r.queue::integer, r.rank::integer, coalesce(r.payload, ''), r.format::smallint,
           r.subject, r.priority::integer, r.state::smallint, r.position::bigint,
           r.next_execution::bigint, r.waiting_since::bigint, r.created_at::bigint, r.headers,
           r.overrides, coalesce(r.channel::integer, 0), r.key_values, r.n
    from rows from (
        string_to_table(queues, E'\x1e', E'\x15'),
        string_to_table(ranks, E'\x1e', E'\x15'),
        string_to_table(payloads, E'\x1e', E'\x15'),
        string_to_table(formats, E'\x1e', E'\x15'),
        string_to_table(subjects, E'\x1e', E'\x15'),
        string_to_table(priorities, E'\x1e', E'\x15'),
        string_to_table(states, E'\x1e', E'\x15'),
        string_to_table(positions, E'\x1e', E'\x15'),
        string_to_table(next_executions, E'\x1e', E'\x15'),
        string_to_table(waiting_sinces, E'\x1e', E'\x15'),
        string_to_table(created_ats, E'\x1e', E'\x15'),
        string_to_table(headerses, E'\x1e', E'\x15'),
        string_to_table(overrideses, E'\x1e', E'\x15'),
        string_to_table(channels, E'\x1e', E'\x15'),
        string_to_table(key_valueses, E'\x1e', E'\x15')
    ) with ordinality as r (
        queue, rank, payload, format, subject, priority, state, position, next_execution,
        waiting_since, created_at, headers, overrides, channel, key_values, n
    )
$$;
