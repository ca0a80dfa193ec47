-- Sinks: rows that are staged by many and published by one.

-- One row per sink: the query that writes to it and its last batch. Locked while a batch is
-- published, so that each batch is published once.
create table headrace.sink (
    name       text collate "C" primary key,
    query_id   text not null,
    last_batch bigint not null,
    at         bigint not null,
    outcome    text not null
);

-- Staged records are rows of headrace.batch with a stage and without a number; ts is when they
-- were staged. To publish them is to number them, so that nothing is written twice.
create index batch_stage on headrace.batch (stage, id) where stage is not null;

-- What transactions number when they commit is found without passing what is staged.
drop index headrace.batch_unnumbered;
create index batch_unnumbered on headrace.batch (id) where base_seq is null and stage is null;

-- Staged documents for queues: count documents as JSON lines.
create table headrace.staged (
    id        uuid primary key,
    stage     text not null,
    queue     text not null,
    count     integer not null,
    documents text not null,
    ts        bigint not null
);
create index staged_stage on headrace.staged (stage, id);
