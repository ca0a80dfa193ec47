-- Statements of the diagnosis. They change nothing.

-- name: journal
-- How SQLite keeps what is not yet in the file.
pragma journal_mode;

-- name: quick_check
-- Read the whole file and name what is wrong with it; 'ok' if nothing is.
pragma quick_check(10);

-- name: tables
-- All tables of the file.
select name from sqlite_master where type = 'table';

-- name: version
-- The version of the tables.
select coalesce(max(version), 0) as version from headrace_migration;

-- name: furthest_topic
-- The topic whose newest record is dated latest, and how far that is beyond the clock.
select name,
       last_ts - coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
           as ahead
from headrace_topic
order by last_ts desc
limit 1;
