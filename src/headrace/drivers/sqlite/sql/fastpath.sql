-- Statements that do in one step what takes several elsewhere.

-- name: next_items
-- The first items in line as they are once they are claimed, unless others may have to come into it
-- before them: planned ones, or those whose lease is over.
select id, payload, format, subject, priority, 2 as state, position, next_execution,
       waiting_since, created_at, attempts + 1 as attempts, crashes, iterations, last_iteration,
       headers, overrides, :token as token,
       :now + coalesce(cast(round(json_extract(overrides, '$.lease') * 1000) as integer), :lease)
           as lease_until,
       :now as claimed_at, :worker as worker, error, successor
from headrace_item
where queue = :queue and state = 1
  and not exists (select 1 from headrace_item
                  where queue = :queue and state = 0 and next_execution <= :now)
  and not exists (select 1 from headrace_item
                  where queue = :queue and state = 2 and lease_until <= :now)
order by rank, position
limit :count;

-- name: next_records
-- The next batch for a proc that is in order: active, nothing out, nothing to skip. Answers
-- nothing in any other case.
select p.id, t.name as topic, p.cursor, p.lease, t.next_seq,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now,
       b.id as batch, b.base_seq, b.count, b.ts, b.headers,
       case when b.id = :known then null else b.body end as body
from headrace_proc p
join headrace_topic t on t.id = p.topic
join headrace_batch b on b.topic = t.id and b.base_seq = (
    select max(f.base_seq) from headrace_batch f where f.topic = t.id and f.base_seq <= p.cursor)
where p.name = :proc and p.status = 'active' and p.skipped = '[]' and p.isolate_to is null
  and p.cursor >= t.first_seq and p.cursor < t.next_seq
  and not exists (select 1 from headrace_proc_claim c where c.proc = p.id);

-- name: record_proc_claim
-- Record in a proc which records it has claimed.
update headrace_proc
set last_claimed_at = :now, previous_claimed_range = last_claimed_range,
    last_claimed_range = :range, expires_at = coalesce(:now + ttl, expires_at)
where id = :id;

-- name: advance_position
-- Move on to the next position in line.
update headrace_turn set last = last + 1;

-- name: push_item
-- An item that is due now and has no subject, at the next position in line; nothing if its queue
-- is not what it was when it was last seen.
insert into headrace_item (
    queue, rank, payload, format, priority, state, position, next_execution,
    waiting_since, created_at, headers, overrides
)
select id, :rank, :payload, :format, :priority, 1, :sign * (select last + 1 from headrace_turn),
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)),
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)),
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)),
       :headers, :overrides
from headrace_queue
where id = :queue and name = :name and version = :version and is_live;

-- name: count_push
-- Add one item that waits to a queue's counts.
insert into headrace_tally (queue, pending, entered) values (:queue, 1, 1)
on conflict (queue) do update set pending = pending + 1, entered = entered + 1;

-- name: count_claim
-- Count items of a queue's line as claimed.
insert into headrace_tally (queue, pending, active, picked) values (:queue, -:count, :count, :count)
on conflict (queue) do update
set pending = pending - :count, active = active + :count, picked = picked + :count;

-- name: complete_items
-- Delete items of one claim that are done, unless they have a successor; nothing if their queue is
-- not what it was when it was last read.
delete from headrace_item
where queue = :queue and id in (select value from json_each(:ids)) and token = :token
  and successor is null
  and exists (select 1 from headrace_queue
              where id = :queue and name = :name and version = :version and is_live)
returning id;

-- name: count_completed
-- Count items in flight as processed.
insert into headrace_tally (queue, active, processed) values (:queue, -:count, :count)
on conflict (queue) do update
set active = active - :count, processed = processed + :count;
