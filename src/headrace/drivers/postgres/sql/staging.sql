-- Statements on rows that are staged in the tables themselves.

-- name: stage_batch
-- Store a row that no reader sees; sent again, it is the same row.
insert into headrace.batch (id, topic, count, ts, body, headers, stage)
values (:id::uuid, :topic, :count, coalesce(:now::bigint, headrace.clock()), :body, :headers, :stage)
on conflict (id) do nothing;

-- name: stage_documents
-- Store documents for a queue; sent again, they are the same row.
insert into headrace.staged (id, stage, queue, count, documents, ts)
values (:id::uuid, :stage, :queue, :count, :documents, coalesce(:now::bigint, headrace.clock()))
on conflict (id) do nothing;

-- name: count_staged
-- What is staged under tokens, for topics and for queues.
select b.stage, t.name as target, count(*) as rows, sum(b.count)::bigint as records
from headrace.batch b join headrace.topic t on t.id = b.topic
where b.stage = any(:tokens::text[])
group by b.stage, t.name
union all
select s.stage, 'queue/' || s.queue, count(*), sum(s.count)::bigint
from headrace.staged s
where s.stage = any(:tokens::text[])
group by s.stage, s.queue;

-- name: number_staged
-- Give staged rows their places, in the order of the tokens and of their ids; :bases are the
-- next seqs of :topics. From here on they are rows like all others.
update headrace.batch b
set base_seq = place.seq, ts = :ts, stage = null
from (select u.id,
             t.base + sum(u.count) over (partition by u.topic order by s.place, u.id) - u.count
                 as seq
      from unnest(:tokens::text[]) with ordinality s (token, place)
      join headrace.batch u on u.stage = s.token
      join unnest(:topics::integer[], :bases::bigint[]) t (topic, base) on t.topic = u.topic) place
where b.id = place.id;

-- name: staged_documents
-- The next documents under a token, after a row.
select id::text as id, queue, documents
from headrace.staged
where stage = :stage and id > :after::uuid
order by id
limit :limit;

-- name: drop_staged
-- Remove what is staged under tokens.
delete from headrace.batch where stage = any(:tokens::text[]);

-- name: drop_staged_documents
-- Remove documents that are staged under tokens.
delete from headrace.staged where stage = any(:tokens::text[]);

-- name: old_stages
-- Tokens under which nothing was staged for a while.
select stage
from (select stage, ts from headrace.batch where stage is not null
      union all
      select stage, ts from headrace.staged) row
group by stage
having max(ts) <= coalesce(:now::bigint, headrace.clock()) - :age
order by stage
limit :limit;
