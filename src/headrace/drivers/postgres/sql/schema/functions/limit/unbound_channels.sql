-- Channels whose counters are not known for a version of the rules, by id and name: of the given
-- channels, and of those that come next behind a turn.
create function headrace.unbound_channels(
    queue_id integer, selection_id integer, channels integer[], seen bigint, rule_version integer
) returns text language plpgsql as $$
begin
    return (
        select string_agg(c.id || E'\x1f' || c.key_values, E'\x1e')
        from (
            select u.id from unnest(channels) as u (id)
            union
            select n.channel
            from (
                select 0 as id where selection_id is null
                union all
                select k.id from headrace.lane k
                where k.queue = queue_id
                  and (selection_id is null or k.selections like '%,' || selection_id || ',%')
            ) l
            cross join lateral (
                select f.channel from headrace.ready_channel f
                where f.queue = queue_id and f.lane = l.id and f.turn > seen
                order by f.turn limit 200
            ) n
        ) u
        cross join lateral (
            select h.id, h.key_values from headrace.channel h
            where h.id = u.id
              and (h.bound_version < rule_version
                   or exists (select from unnest(h.counted) as k (counter)
                              where not exists (select from headrace.limit_counter b
                                                where b.id = k.counter)))
        ) c);
end
$$;
