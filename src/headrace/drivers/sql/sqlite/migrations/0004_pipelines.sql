-- Pipelines: procs that share a definition, under a name.

-- definition is JSON, the same for all procs of a pipeline.
alter table headrace_proc add column pipeline text;
alter table headrace_proc add column definition text;
create index headrace_proc_pipeline on headrace_proc (pipeline) where pipeline is not null;
