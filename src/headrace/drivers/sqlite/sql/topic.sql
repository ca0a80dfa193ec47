-- Statements on topics and their batches. A statement starts at "-- name:"; the line below
-- says what it is for; parameters are written :like_this.
-- Lists travel as JSON text, since SQLite has no arrays. There is one writer at a time, so
-- nothing needs to be locked by row: BEGIN IMMEDIATE has locked everything.

-- name: lock_heads
-- Lock the heads of some topics, always in the order of their ids, and read the clock.
select id, name, first_seq, next_seq, last_ts, min_age, max_age, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_topic
where name in (select value from json_each(:names))
order by id;

-- name: add_topics
-- Create head rows for names that have none.
insert into headrace_topic (name)
select value from json_each(:names) where true
on conflict (name) do nothing;

-- name: add_batch
-- Store one row of records at its place.
insert into headrace_batch (id, topic, base_seq, count, ts, body, headers)
values (:id, :topic, :base_seq, :count, :ts, :body, :headers);

-- name: move_head
-- Allocate the numbers up to next_seq.
update headrace_topic set next_seq = :next_seq, last_ts = :ts where id = :topic;

-- name: head
-- One topic's head and the clock.
select id, name, first_seq, next_seq, last_ts, min_age, max_age, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_topic
where name = :topic;

-- name: list_topics
-- Topics that have records, by name.
select name, first_seq, next_seq, last_ts, min_age, max_age
from headrace_topic
where next_seq > 0 and name > :after and name >= :prefix and substr(name, 1, length(:prefix)) = :prefix
order by name
limit :limit;

-- name: time_cut
-- Where a timestamp cuts the topic: the first seq at or after it, the first seq after it.
select coalesce((select b.base_seq from headrace_batch b
                 where b.topic = t.id and b.ts >= :ts and b.base_seq is not null
                 order by b.ts, b.base_seq limit 1), t.next_seq) as first,
       coalesce((select b.base_seq from headrace_batch b
                 where b.topic = t.id and b.ts > :ts and b.base_seq is not null
                 order by b.ts, b.base_seq limit 1), t.next_seq) as after
from headrace_topic t
where t.name = :topic;

-- name: read_up
-- The rows that cover low..high, lowest first, at most :span records and, after the
-- first row, no more than :max_bytes; with the head, once even if there are no rows. The
-- body of the row that the reader has :known already is left out.
select t.first_seq, t.next_seq, t.last_ts,
       b.id, b.base_seq, b.count, b.ts, b.headers,
       case when b.id = :known then null else b.body end as body
from headrace_topic t
left join headrace_batch b
       on b.topic = t.id
      and b.base_seq >= coalesce((select max(base_seq) from headrace_batch
                                  where topic = t.id and base_seq <= max(:low, t.first_seq)), 0)
      -- The sizes are added up apart: with the bodies beside them, each would be copied, and
      -- as text it would be counted letter by letter.
      and b.base_seq <= (
          select max(base_seq)
          from (select s.base_seq,
                       sum(length(cast(s.body as blob))) over (order by s.base_seq)
                           - length(cast(s.body as blob)) as before
                from headrace_batch s
                where s.topic = t.id
                  and s.base_seq >= coalesce((select max(base_seq) from headrace_batch
                                              where topic = t.id
                                                and base_seq <= max(:low, t.first_seq)), 0)
                  and s.base_seq <= min(:high, max(:low, t.first_seq) + :span - 1))
          where before < :max_bytes)
where t.name = :topic and t.next_seq > 0
order by b.base_seq;

-- name: read_down
-- The rows that cover low..high, highest first, at most :span records and, after the
-- first row, no more than :max_bytes; with the head, once even if there are no rows. The
-- body of the row that the reader has :known already is left out.
select t.first_seq, t.next_seq, t.last_ts,
       b.id, b.base_seq, b.count, b.ts, b.headers,
       case when b.id = :known then null else b.body end as body
from headrace_topic t
left join headrace_batch b
       on b.topic = t.id
      and b.base_seq <= min(:high, t.next_seq - 1)
      and b.base_seq >= (
          select min(base_seq)
          from (select s.base_seq,
                       sum(length(cast(s.body as blob))) over (order by s.base_seq desc)
                           - length(cast(s.body as blob)) as before
                from headrace_batch s
                where s.topic = t.id
                  and s.base_seq >= coalesce((select max(base_seq) from headrace_batch
                                              where topic = t.id
                                                and base_seq <= max(:low, t.first_seq, min(:high, t.next_seq - 1) - :span + 1)), 0)
                  and s.base_seq <= min(:high, t.next_seq - 1))
          where before < :max_bytes)
where t.name = :topic and t.next_seq > 0
order by b.base_seq desc;
