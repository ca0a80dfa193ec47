-- Trigger: number the rows that a longer transaction wrote, all of them when it commits. If it locked
-- the heads of topics any earlier, every other writer would wait for its end, and two such
-- transactions could deadlock. The visible rows that have no number and no stage are our own. A test
-- sets the time with the parameter headrace.now.
create function headrace.number_batches() returns trigger language plpgsql as $$
declare
    moment bigint;
begin
    perform from headrace.batch where id = new.id and base_seq is null;
    if not found then
        return null;  -- an earlier row of this transaction brought this one along
    end if;
    perform from headrace.topic
    where id in (select topic from headrace.batch where base_seq is null and stage is null)
    order by id
    for no key update;
    select greatest(
               max(last_ts),
               coalesce(nullif(current_setting('headrace.now', true), '')::bigint,
                        headrace.clock()))
    into moment
    from headrace.topic
    where id in (select topic from headrace.batch where base_seq is null and stage is null);
    with placed as (
        update headrace.batch b
        set base_seq = place.seq, ts = moment
        from (select u.id,
                     t.next_seq + sum(u.count) over (partition by u.topic order by u.id) - u.count
                         as seq
              from headrace.batch u
              join headrace.topic t on t.id = u.topic
              where u.base_seq is null and u.stage is null) place
        where b.id = place.id and b.base_seq is null
        returning b.topic, b.count
    )
    update headrace.topic t
    set next_seq = t.next_seq + total.count, last_ts = moment
    from (select topic, sum(count) as count from placed group by topic) total
    where t.id = total.topic;
    perform pg_notify('headrace_' || tg_table_schema, '')
    where exists (select from headrace.waiter where until > headrace.clock());
    return null;
end
$$;
