-- A commit of several calls, some with an idempotency key; see headrace.append. The keys come as columns
-- in JSON. key_numbers says which key each part of a keyed call belongs to, firsts and counts which
-- of the row's records it has. If some keys are in use, used lists them (see headrace.reserve_keys),
-- and nothing was stored.
create function headrace.append_keyed(
    calls json, topic_name text, row_id uuid, row_count integer, row_body text, row_headers text,
    moment bigint, channel text
) returns table (base_seq bigint, ts bigint, now bigint, used text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    nothing text;
    call record;
begin
    select c.* into call from json_to_record(calls) as c (
        keys text[], digests text[], ttls bigint[], key_numbers integer[], firsts integer[],
        counts integer[]);
    used := headrace.reserve_keys('commit', call.keys, call.digests, call.ttls, moment);
    if used is not null then
        if exists (select from headrace.batch b where b.id = row_id) then
            -- An earlier run of this statement used them: it is found by its row.
            raise unique_violation using constraint = 'batch_id';
        end if;
        return next;
        return;
    end if;
    select a.base_seq, a.ts, a.now into base_seq, ts, now
    from headrace.append(
        topic_name, row_id, row_count, row_body, row_headers, false, moment, channel) a;
    if not found then
        nothing := headrace.release_keys('commit', call.keys);
        return;
    end if;
    nothing := headrace.save_key_outcomes('commit', call.keys, array(
        select json_build_object(
            'type', 'committed', 'ts', ts,
            'spans', json_agg(json_build_object(
                'topic', topic_name, 'first_seq', base_seq + p.first, 'count', p.count) order by p.n),
            'ahead_ms', greatest(ts - now, 0))::text
        from unnest(call.key_numbers, call.firsts, call.counts)
             with ordinality as p (key_number, first, count, n)
        group by p.key_number order by p.key_number));
    return next;
end
$$;
