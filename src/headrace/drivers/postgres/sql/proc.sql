-- Statements on procs and their claims.

-- name: lock_proc
-- Lock a proc. It is read by the next statement, never by this one: after a wait, this one
-- would see the new proc beside the old claims.
select id from headrace.proc where name = :proc
for update;

-- name: load_proc
-- A proc, its outstanding claim, its topic's head, and the clock.
select p.id, p.name, t.name as topic, p.origin, p.cursor, p.created_at, p.status,
       p.last_claimed_at, p.turn, p.last_acked_at,
       p.last_claimed_range, p.last_acked_range, p.previous_claimed_range,
       p.attempts, p.max_attempts, p.lease, p.on_exhausted,
       p.last_error, p.skipped, p.isolate_to, p.last_acked_token, p.last_ack,
       p.ttl, p.expires_at,
       c.token, c.first_seq as claim_first_seq, c.last_seq as claim_last_seq, c.deadline,
       t.id as topic_id, t.first_seq, t.next_seq, t.last_ts, t.min_age, t.max_age,
       coalesce(:now::bigint, headrace.clock()) as now
from headrace.proc p
join headrace.topic t on t.id = p.topic
left join headrace.proc_claim c on c.proc = p.id
where p.name = :proc;

-- name: load_procs
-- All procs, or those of a topic, or those named; by name.
select p.id, p.name, t.name as topic, p.origin, p.cursor, p.created_at, p.status,
       p.last_claimed_at, p.turn, p.last_acked_at,
       p.last_claimed_range, p.last_acked_range, p.previous_claimed_range,
       p.attempts, p.max_attempts, p.lease, p.on_exhausted,
       p.last_error, p.skipped, p.isolate_to, p.last_acked_token, p.last_ack,
       p.ttl, p.expires_at,
       c.token, c.first_seq as claim_first_seq, c.last_seq as claim_last_seq, c.deadline,
       t.id as topic_id, t.first_seq, t.next_seq, t.last_ts, t.min_age, t.max_age,
       coalesce(:now::bigint, headrace.clock()) as now
from headrace.proc p
join headrace.topic t on t.id = p.topic
left join headrace.proc_claim c on c.proc = p.id
where (:topic::text is null or t.name = :topic)
  and (:names::text[] is null or p.name = any(:names::text[]))
order by p.name;

-- name: add_proc
-- Create a proc unless the name is in use.
insert into headrace.proc (name, topic, origin, cursor, created_at,
                           max_attempts, lease, on_exhausted,
                           ttl, expires_at)
values (:name, :topic, :origin, :cursor, :created_at,
        :max_attempts, :lease, :on_exhausted,
        :ttl, :expires_at)
on conflict (name) do nothing;

-- name: save_proc
-- Store what has changed in a locked proc.
update headrace.proc
set origin = :origin, cursor = :cursor, status = :status,
    last_claimed_at = :last_claimed_at, turn = :turn, last_acked_at = :last_acked_at,
    last_claimed_range = :last_claimed_range, last_acked_range = :last_acked_range,
    previous_claimed_range = :previous_claimed_range,
    attempts = :attempts, max_attempts = :max_attempts, lease = :lease,
    on_exhausted = :on_exhausted, last_error = :last_error,
    skipped = :skipped, isolate_to = :isolate_to,
    last_acked_token = :last_acked_token, last_ack = :last_ack,
    ttl = :ttl, expires_at = :expires_at
where id = :id;

-- name: delete_proc
-- Remove a proc, and its claim: a role may be exempt from foreign keys.
with released as (
    delete from headrace.proc_claim where proc = :id
)
delete from headrace.proc where id = :id;

-- name: add_claim
-- Store a proc's claim.
insert into headrace.proc_claim (proc, token, first_seq, last_seq, deadline)
values (:id, :token, :first_seq, :last_seq, :deadline);

-- name: extend_claim
-- Extend a proc's claim.
update headrace.proc_claim set deadline = :deadline where proc = :id;

-- name: drop_claim
-- Delete a proc's claim.
delete from headrace.proc_claim where proc = :id;

-- name: proc_candidates
-- The named procs, the one that claimed longest ago first, and whether each may have work now.
select p.name, p.turn,
       p.status = 'active'
           and (p.cursor is null or p.cursor < t.next_seq)
           and (c.proc is null or c.deadline <= coalesce(:now::bigint, headrace.clock())) as is_ready
from headrace.proc p
join headrace.topic t on t.id = p.topic
left join headrace.proc_claim c on c.proc = p.id
where p.name = any(:names::text[])
order by p.last_claimed_at, p.turn, p.id;
