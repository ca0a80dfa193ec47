-- Statements that do at once what takes several elsewhere.

-- name: claim_first
-- Claim the first items in line, unless planned ones have to come into it first.
update headrace_item
set state = 2, attempts = attempts + 1, token = :token, claimed_at = :now, worker = :worker,
    lease_until = :now + coalesce(json_extract(overrides, '$.timeout') * 1000, :lease)
where id in (
    select id from headrace_item
    where queue = :queue and state = 1
      and not exists (select 1 from headrace_item
                      where queue = :queue and state = 0 and next_execution <= :now)
    order by rank, position
    limit :count)
returning id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor;
