-- headrace.push_items for documents in channels. The channels come by name, in order; channel_numbers
-- says which document belongs to which. done is '-1', and nothing was changed, if the last item of one
-- of the channels may have to be replaced.
create function headrace.push_to_channels(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint,
    listener text, names text, channel_numbers text, ranks text, payloads text, formats text,
    subjects text, priorities text, dues text, delays text, headerses text, overrideses text
) returns table (done text, is_under_way boolean) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    forms text[] := string_to_array(names, E'\x1e');
    found_now record;
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
    found_now := headrace.lock_channels(queue_id, forms, moment);
    if found_now.has_replaceable then
        done := '-1';
        return next;
        return;
    end if;
    with fresh as (
        insert into headrace.item as i (
            queue, rank, payload, format, subject, priority, state, position,
            next_execution, waiting_since, created_at, headers, overrides, channel, key_values
        )
        select queue_id, d.rank, d.payload, d.format, d.subject, d.priority,
               case when d.due <= moment then 1 else 0 end,
               case when d.due <= moment then sign * nextval('headrace.turn') end,
               d.due, moment, moment, d.headers, d.overrides, d.channel, d.form
        from (
            select r.*, h.channel, h.form
            from headrace.document_rows(
                channel_numbers, ranks, payloads, formats, subjects, priorities, dues, delays,
                headerses, overrideses, moment) r
            join rows from (unnest(found_now.channels), unnest(forms))
                 with ordinality as h (channel, form, n) on h.n = r.channel_number
            order by r.n
        ) d
        on conflict (queue, subject) where i.subject is not null do nothing
        returning i.id, i.subject, i.state, i.channel
    ), waiting as (
        -- In the order of their documents; entered in that of the channels, as all do it.
        select w.channel, nextval('headrace.turn') as turn
        from (
            select f.channel from fresh f
            where f.state = 1
              and not exists (select from headrace.ready_channel r where r.channel = f.channel)
            group by f.channel order by min(f.id)
        ) w
    ), lined as (
        insert into headrace.ready_channel (channel, queue, lane, turn)
        select w.channel, queue_id, (select c.lane from headrace.channel c where c.id = w.channel),
               w.turn
        from waiting w order by w.channel
        on conflict (channel) do nothing
    )
    select string_agg(f.id::text || coalesce(E'\x1f' || f.subject, ''), E'\x1e'),
           count(*) filter (where f.state = 0), count(*) filter (where f.state = 1)
    into done, planned, pending from fresh f;
    is_under_way := headrace.finish_push(
        queue_id, queue_name, receipt, moment, done, planned, pending, listener);
    return next;
end
$$;
