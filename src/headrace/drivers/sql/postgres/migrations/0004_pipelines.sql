-- Pipelines: procs that share a definition, under a name.

-- definition is JSON, the same for all procs of a pipeline.
alter table headrace.proc add column pipeline text collate "C";
alter table headrace.proc add column definition text;
create index proc_pipeline on headrace.proc (pipeline) where pipeline is not null;
