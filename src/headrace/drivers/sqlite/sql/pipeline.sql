-- Statements on pipelines.

-- name: definitions
-- Procs that belong to a pipeline: all, or those of the named procs and pipelines.
select p.name, t.name as topic, p.pipeline, p.definition, p.lease
from headrace_proc p
join headrace_topic t on t.id = p.topic
where p.pipeline is not null
  and (:names is null
       or p.pipeline in (select value from json_each(:names))
       or p.name in (select value from json_each(:names)))
order by p.name;

-- name: definition
-- The procs of one pipeline.
select p.name, t.name as topic, p.pipeline, p.definition, p.lease
from headrace_proc p
join headrace_topic t on t.id = p.topic
where p.pipeline = :pipeline
order by p.name;

-- name: define_proc
-- Make a proc part of a pipeline.
update headrace_proc set pipeline = :pipeline, definition = :definition where name = :proc;
