-- Statements on topics and their batches. A statement starts at "-- name:"; the line below
-- says what it is for; parameters are written :like_this.

-- name: lock_heads
-- Lock the heads of some topics, always in the order of their ids, and read the clock.
select id, name, first_seq, next_seq, last_ts, min_age, max_age, coalesce(:now::bigint, headrace.clock()) as now
from headrace.topic
where name = any(:names::text[])
order by id
for no key update;

-- name: add_topics
-- Create head rows for names that have none.
insert into headrace.topic (name)
select name from unnest(:names::text[]) name order by name
on conflict (name) do nothing;

-- name: add_batch
-- Store one row of records at its place.
insert into headrace.batch (id, topic, base_seq, count, ts, body, headers)
values (:id::uuid, :topic, :base_seq, :count, :ts, :body, :headers);

-- name: move_head
-- Allocate the numbers up to next_seq.
update headrace.topic set next_seq = :next_seq, last_ts = :ts where id = :topic;

-- name: head
-- One topic's head and the clock.
select id, name, first_seq, next_seq, last_ts, min_age, max_age, coalesce(:now::bigint, headrace.clock()) as now
from headrace.topic
where name = :topic;

-- name: list_topics
-- Topics that have records, by name.
select name, first_seq, next_seq, last_ts, min_age, max_age
from headrace.topic
where next_seq > 0 and name > :after and name >= :prefix and starts_with(name, :prefix)
order by name
limit :limit;

-- name: time_cut
-- Where a timestamp cuts the topic: the first seq at or after it, the first seq after it.
select coalesce((select b.base_seq from headrace.batch b
                 where b.topic = t.id and b.ts >= :ts and b.base_seq is not null
                 order by b.ts, b.base_seq limit 1), t.next_seq) as first,
       coalesce((select b.base_seq from headrace.batch b
                 where b.topic = t.id and b.ts > :ts and b.base_seq is not null
                 order by b.ts, b.base_seq limit 1), t.next_seq) as after
from headrace.topic t
where t.name = :topic;

-- name: read_up
-- The rows that cover low..high, lowest first, at most :span records and, after the
-- first row, no more than :max_bytes; with the head, once even if there are no rows. The
-- body of the row that the reader has :known already is left out.
select first_seq, next_seq, last_ts, id, base_seq, count, ts, headers,
       case when id::text = :known then null else body end as body
from (
    select t.first_seq, t.next_seq, t.last_ts,
           b.id, b.base_seq, b.count, b.ts, b.headers, b.body,
           sum(octet_length(b.body)) over (order by b.base_seq) - octet_length(b.body) as before
    from headrace.topic t
    -- Lateral with a limit: as a plain join, a cached plan would hash the whole table.
    left join lateral (
        select id, base_seq, count, ts, headers, body
        from headrace.batch
        where topic = t.id
          and base_seq >= coalesce((select max(base_seq) from headrace.batch
                                    where topic = t.id and base_seq <= greatest(:low::bigint, t.first_seq)), 0)
          and base_seq <= least(:high::bigint, greatest(:low::bigint, t.first_seq) + :span::bigint - 1)
        order by base_seq
        limit :span
    ) b on true
    where t.name = :topic and t.next_seq > 0
) row
where base_seq is null or before < :max_bytes
order by base_seq;

-- name: read_down
-- The rows that cover low..high, highest first, at most :span records and, after the
-- first row, no more than :max_bytes; with the head, once even if there are no rows. The
-- body of the row that the reader has :known already is left out.
select first_seq, next_seq, last_ts, id, base_seq, count, ts, headers,
       case when id::text = :known then null else body end as body
from (
    select t.first_seq, t.next_seq, t.last_ts,
           b.id, b.base_seq, b.count, b.ts, b.headers, b.body,
           sum(octet_length(b.body)) over (order by b.base_seq desc) - octet_length(b.body) as before
    from headrace.topic t
    -- Lateral with a limit: as a plain join, a cached plan would hash the whole table.
    left join lateral (
        select id, base_seq, count, ts, headers, body
        from headrace.batch
        where topic = t.id
          and base_seq >= coalesce((select max(base_seq) from headrace.batch
                                    where topic = t.id and base_seq <= greatest(:low::bigint, t.first_seq, least(:high::bigint, t.next_seq - 1) - :span::bigint + 1)), 0)
          and base_seq <= least(:high::bigint, t.next_seq - 1)
        order by base_seq desc
        limit :span
    ) b on true
    where t.name = :topic and t.next_seq > 0
) row
where base_seq is null or before < :max_bytes
order by base_seq desc;
