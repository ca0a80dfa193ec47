-- Statements on procs and their claims.

-- name: lock_proc
-- The same shape as on PostgreSQL, where the row must be locked before it is read.
select id from headrace_proc where name = :proc;

-- name: load_proc
-- A proc, its outstanding claim, its topic's head, and the clock.
select p.id, p.name, t.name as topic, p.origin, p.cursor, p.created_at, p.status,
       p.last_claimed_at, p.last_acked_at,
       p.last_claimed_range, p.last_acked_range, p.previous_claimed_range,
       p.reclaims, p.max_reclaims, p.reclaim_timeout, p.on_max_reclaims_reached,
       p.last_error, p.skipped, p.isolate_to, p.last_acked_token, p.last_ack,
       p.ttl, p.expires_at,
       c.token, c.first_seq as hold_first_seq, c.last_seq as hold_last_seq, c.deadline,
       t.id as topic_id, t.first_seq, t.next_seq, t.last_ts, t.min_age, t.max_age,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_proc p
join headrace_topic t on t.id = p.topic
left join headrace_proc_claim c on c.proc = p.id
where p.name = :proc;

-- name: load_procs
-- All procs, or those of a topic, or those named; by name.
select p.id, p.name, t.name as topic, p.origin, p.cursor, p.created_at, p.status,
       p.last_claimed_at, p.last_acked_at,
       p.last_claimed_range, p.last_acked_range, p.previous_claimed_range,
       p.reclaims, p.max_reclaims, p.reclaim_timeout, p.on_max_reclaims_reached,
       p.last_error, p.skipped, p.isolate_to, p.last_acked_token, p.last_ack,
       p.ttl, p.expires_at,
       c.token, c.first_seq as hold_first_seq, c.last_seq as hold_last_seq, c.deadline,
       t.id as topic_id, t.first_seq, t.next_seq, t.last_ts, t.min_age, t.max_age,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_proc p
join headrace_topic t on t.id = p.topic
left join headrace_proc_claim c on c.proc = p.id
where (:topic is null or t.name = :topic)
  and (:names is null or p.name in (select value from json_each(:names)))
order by p.name;

-- name: add_proc
-- Make a proc unless the name is taken.
insert into headrace_proc (name, topic, origin, cursor, created_at,
                           max_reclaims, reclaim_timeout, on_max_reclaims_reached,
                           ttl, expires_at)
values (:name, :topic, :origin, :cursor, :created_at,
        :max_reclaims, :reclaim_timeout, :on_max_reclaims_reached,
        :ttl, :expires_at)
on conflict (name) do nothing;

-- name: save_proc
-- Store what has changed in a locked proc.
update headrace_proc
set origin = :origin, cursor = :cursor, status = :status,
    last_claimed_at = :last_claimed_at, last_acked_at = :last_acked_at,
    last_claimed_range = :last_claimed_range, last_acked_range = :last_acked_range,
    previous_claimed_range = :previous_claimed_range,
    reclaims = :reclaims, max_reclaims = :max_reclaims, reclaim_timeout = :reclaim_timeout,
    on_max_reclaims_reached = :on_max_reclaims_reached, last_error = :last_error,
    skipped = :skipped, isolate_to = :isolate_to,
    last_acked_token = :last_acked_token, last_ack = :last_ack,
    ttl = :ttl, expires_at = :expires_at
where id = :id;

-- name: drop_proc
-- Remove a proc.
delete from headrace_proc where id = :id;

-- name: hold
-- Remember a claim.
insert into headrace_proc_claim (proc, token, first_seq, last_seq, deadline)
values (:id, :token, :first_seq, :last_seq, :deadline);

-- name: extend_hold
-- Give a claim more time.
update headrace_proc_claim set deadline = :deadline where proc = :id;

-- name: release
-- Forget a claim.
delete from headrace_proc_claim where proc = :id;

-- name: candidates
-- The named procs, whoever claimed longest ago first, and whether each may have work now.
select p.name,
       p.status = 'active'
           and (p.cursor is null or p.cursor < t.next_seq)
           and (c.proc is null or c.deadline <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))) as is_ready
from headrace_proc p
join headrace_topic t on t.id = p.topic
left join headrace_proc_claim c on c.proc = p.id
where p.name in (select value from json_each(:names))
order by p.last_claimed_at, p.id;
