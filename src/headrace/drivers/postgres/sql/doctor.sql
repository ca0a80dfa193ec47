-- Statements of the diagnosis. They read what every user may read, and change nothing.

-- name: server
-- Version, settings that durability depends on, the clock, and the server process.
select current_setting('server_version_num')::integer as number,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('autovacuum') as autovacuum,
       pg_is_in_recovery() as is_replica,
       pg_has_role('pg_read_all_stats', 'usage') as sees_all,
       (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
       pg_backend_pid() as pid;

-- name: backend
-- The server process: another one than before if a pooler assigns server connections.
select pg_backend_pid() as pid;

-- name: oldest_transaction
-- The transaction that is open for longest. Vacuum cannot clean up behind it.
select kind, pid, gid, user_name, application, state, seconds
from (
    select 'session' as kind, pid, null as gid, usename as user_name,
           application_name as application, state,
           extract(epoch from clock_timestamp() - xact_start)::float8 as seconds
    from pg_stat_activity
    where xact_start is not null
      and pid <> pg_backend_pid()
      and (datname = current_database() or backend_type = 'walsender')
      and backend_type <> 'autovacuum worker'
    union all
    select 'prepared', null, gid, owner, null, 'prepared',
           extract(epoch from clock_timestamp() - prepared)::float8
    from pg_prepared_xacts
    where database = current_database()
) open
order by seconds desc
limit 1;

-- name: tables
-- Our tables: rows alive and dead as far as the statistics know, and size on disk.
select c.relname as name,
       coalesce(s.n_live_tup, 0) as live,
       coalesce(s.n_dead_tup, 0) as dead,
       pg_total_relation_size(c.oid) as bytes
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_stat_all_tables s on s.relid = c.oid
where n.nspname = :schema and c.relkind = 'r'
order by c.relname;

-- name: version
-- The version of the tables.
select coalesce(max(version), 0) as version from headrace.migration;

-- name: furthest_topic
-- The topic whose newest record is dated latest, and how far that is beyond the clock.
select name, last_ts - coalesce(:now::bigint, headrace.clock()) as ahead
from headrace.topic
order by last_ts desc
limit 1;
