-- A push of several calls, some with an idempotency key; see headrace.push_items. The keys come as
-- columns in JSON. firsts and counts say which of the documents belong to the call of each key; number is
-- that of all documents.
-- If some keys are in use, used lists them (see headrace.reserve_keys), and nothing was pushed. done is
-- '-1', and nothing was changed, if a subject is in use, or as in headrace.push_to_channels.
-- names and channel_numbers are null for documents in no channel; ranks is null, too, for mere payloads.
create function headrace.push_keyed(
    calls json, queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint,
    listener text, names text, channel_numbers text, ranks text, payloads text, formats text,
    subjects text, priorities text, dues text, delays text, headerses text, overrideses text
) returns table (done text, is_under_way boolean, used text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    call record;
    ids bigint[];
begin
    select c.* into call from json_to_record(calls) as c (
        keys text[], digests text[], ttls bigint[], firsts integer[], counts integer[],
        number integer);
    used := headrace.reserve_keys('push', call.keys, call.digests, call.ttls, moment);
    if used is not null then
        if exists (select from headrace.tally t where t.id = receipt) then
            -- An earlier run of this statement used them: it is found by its receipt.
            raise unique_violation using constraint = 'tally_id';
        end if;
        return next;
        return;
    end if;
    if subjects is not null and subjects <> E'\x15' and exists (
        select from headrace.subject_items(
            queue_id, string_to_array(subjects, E'\x1e', E'\x15'))
    ) then
        nothing := headrace.release_keys('push', call.keys);
        done := '-1';
        return next;
        return;
    end if;
    if channel_numbers is not null then
        select p.done, p.is_under_way into done, is_under_way
        from headrace.push_to_channels(
            queue_id, queue_version, receipt, sign, moment, listener, names, channel_numbers, ranks,
            payloads, formats, subjects, priorities, dues, delays, headerses, overrideses) p;
    elsif ranks is not null then
        select p.done, p.is_under_way into done, is_under_way
        from headrace.push_items(
            queue_id, queue_version, receipt, sign, moment, listener, ranks, payloads, formats,
            subjects, priorities, dues, delays, headerses, overrideses) p;
    else
        select p.done, p.is_under_way into done, is_under_way
        from headrace.push_payloads(
            queue_id, queue_version, receipt, sign, moment, listener, payloads) p;
    end if;
    if not found then
        nothing := headrace.release_keys('push', call.keys);
        return;
    end if;
    if done = '-1' then
        nothing := headrace.release_keys('push', call.keys);
        return next;
        return;
    end if;
    if strpos(done, E'\x1d') > 0 then
        ids := array(select generate_series(split_part(done, E'\x1d', 1)::bigint,
                                            split_part(done, E'\x1d', 2)::bigint));
    else
        ids := array(select split_part(i.entry, E'\x1f', 1)::bigint as id
                     from string_to_table(done, E'\x1e') as i (entry) order by id);
    end if;
    if cardinality(ids) <> call.number then
        -- Another transaction has used a subject meanwhile: the runner tries again.
        raise serialization_failure;
    end if;
    nothing := headrace.save_key_outcomes('push', call.keys, array(
        select '{"type":"pushed","ids":[' || array_to_string(ids[c.first + 1 : c.first + c.count], ',')
               || '],"notes":[]}'
        from unnest(call.firsts, call.counts) with ordinality as c (first, count, n) order by c.n));
    return next;
end
$$;
