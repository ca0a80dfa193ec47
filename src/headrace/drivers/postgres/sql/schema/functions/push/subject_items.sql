-- The live items of subjects, by key: see headrace.token_of.
create function headrace.subject_items(queue_id integer, subjects text[])
returns table (id bigint, subject text) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
    return query
    select f.id, f.subject
    from unnest(subjects) as s (subject)
    cross join lateral (
        select i.id, i.subject from headrace.item i
        where i.queue = queue_id and i.subject = s.subject
        limit 1  -- so that each is searched by its key
    ) f;
end
$$;
