-- Statements for transactions in which records are numbered at COMMIT.

-- name: find_topics
-- The ids of some topics, without locking them.
select id, name, coalesce(:now::bigint, headrace.clock()) as now
from headrace.topic
where name = any(:names::text[]);

-- name: add_unnumbered
-- Store one row of records; the trigger gives it its place at COMMIT.
insert into headrace.batch (id, topic, count, body, headers)
values (:id::uuid, :topic, :count, :body, :headers);

-- name: set_clock
-- The time for the trigger, in tests.
select set_config('headrace.now', coalesce(:now::text, ''), true);

-- name: find_numbered
-- The place a row got, searched from a time before which it cannot be.
select base_seq, ts
from headrace.batch
where topic = (select id from headrace.topic where name = :topic)
  and ts >= :since and base_seq is not null and id = :id::uuid
order by ts, base_seq
limit 1;
