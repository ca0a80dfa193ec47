-- Statements that are a transaction all by themselves.

-- name: append
-- Number one row and store it, or answer nothing if the topic is not there.
select base_seq as appended, ts, now
from headrace.append(:topic, :id::uuid, :count, :body, :headers,
                     :continues, :now::bigint, :channel);

-- name: find_batches
-- Rows that a commit stored whose answer was lost, by their ids.
select base_seq as appended, ts from headrace.batch where id = any(:ids::uuid[]) order by id;

-- name: claim_next
-- Claim for a proc where that is simple; the rows that hold what was claimed.
select state as held, topic, low, high, until, id, base_seq, count, ts, headers, body
from headrace.claim_next(:proc, :token, :most, :max_bytes, :known, :now::bigint);
