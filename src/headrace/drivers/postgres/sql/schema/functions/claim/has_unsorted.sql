-- Whether there are ready channels for which it is not known whether a selection includes them.
create function headrace.has_unsorted(queue_id integer, selection_id integer)
returns boolean language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    return exists (select from headrace.ready_channel r where r.queue = queue_id and r.lane = 0)
        or exists (
            select from headrace.lane l
            where l.queue = queue_id
              and l.version < (select s.since from headrace.selection s where s.id = selection_id)
              and exists (select from headrace.ready_channel r
                          where r.queue = queue_id and r.lane = l.id));
end
$$;
