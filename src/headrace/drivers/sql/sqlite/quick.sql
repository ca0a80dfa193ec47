-- Statements that do at once what takes several elsewhere.

-- name: claim_first
-- Claim the first items in line, unless others may have to come into it before them: planned
-- ones, or those whose lease is over.
update headrace_item
set state = 2, attempts = attempts + 1, token = :token, claimed_at = :now, worker = :worker,
    lease_until = :now + coalesce(
        cast(round(json_extract(overrides, '$.timeout') * 1000) as integer), :lease)
where id in (
    select id from headrace_item
    where queue = :queue and state = 1
      and not exists (select 1 from headrace_item
                      where queue = :queue and state = 0 and next_execution <= :now)
      and not exists (select 1 from headrace_item
                      where queue = :queue and state = 2 and lease_until <= :now)
    order by rank, position
    limit :count)
returning id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, token, lease_until, claimed_at, worker, error, successor;
