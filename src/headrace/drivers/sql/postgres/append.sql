-- Statements that commit records without a transaction around them.

-- name: append
-- Number one row and store it, or answer nothing if the topic is not there.
select base_seq as appended, ts, now
from headrace.append(:topic, :id::uuid, :count, :body, :headers,
                     :continues, :now::bigint, :channel);

-- name: find_batches
-- Rows that a commit stored whose answer was lost, by their ids.
select base_seq as appended, ts from headrace.batch where id = any(:ids::uuid[]) order by id;
