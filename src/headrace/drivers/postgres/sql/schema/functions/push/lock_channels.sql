-- Lock the channels of a queue by name, in the order of the names, and create those that do not exist.
-- has_replaceable: the last item of one of them may have to give its position to a newer one.
create function headrace.lock_channels(
    queue_id integer, forms text[], moment bigint, out channels integer[],
    out has_replaceable boolean
) language plpgsql as $$
#variable_conflict use_column
declare
    doubtful integer[];
begin
    loop
        select array_agg(h.id order by n.n), array_agg(h.id) filter (where h.has_updateable)
        into channels, doubtful
        from unnest(forms) with ordinality as n (form, n)
        cross join lateral (
            select c.id, c.has_updateable from headrace.channel c
            where c.queue = queue_id and c.key_values = n.form
            for key share
        ) h;
        exit when cardinality(channels) = cardinality(forms);
        -- Repeat if another transaction has just deleted one that was there.
        insert into headrace.channel (queue, key_values, created_at)
        select queue_id, n.form, moment from unnest(forms) as n (form)
        where not exists (select from headrace.channel c
                          where c.queue = queue_id and c.key_values = n.form)
        order by n.form collate "C"
        on conflict (queue, key_values) do nothing;
    end loop;
    perform from unnest(doubtful) as c (id)
    cross join lateral (
        select f.subject, f.overrides from headrace.item f
        where f.channel = c.id and f.channel <> 0 and f.state = 1
        order by f.rank desc, f.position desc
        limit 1
    ) l
    where l.subject is null and l.overrides::json ->> 'updateable' = 'true'
    limit 1;
    has_replaceable := found;
end
$$;
