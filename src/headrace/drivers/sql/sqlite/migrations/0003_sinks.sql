-- Sinks: rows that are staged by many and published by one. What is staged lies in files
-- beside the database: processes that stage need not wait for each other, nor open it.

-- One row per sink: the query that writes to it and its last batch.
create table headrace_sink (
    name       text primary key,
    query_id   text not null,
    last_batch integer not null,
    at         integer not null,
    outcome    text not null
);
