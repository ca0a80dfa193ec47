-- Statements on items that have ended: completed, or dead.

-- name: add_finished
-- Store finished items.
insert into headrace.finished_item (
    queue, id, payload, format, subject, priority, state, position, next_execution,
    waiting_since, created_at, attempts, crashes, iterations, last_iteration, headers,
    overrides, claimed_at, worker, error, ended_at, cause, fingerprint, title,
    key_values
)
select r.queue::integer, r.id::bigint, coalesce(r.payload, ''), r.format::smallint, r.subject,
       r.priority::integer, r.state::smallint, r.position::bigint,
       r.next_execution::bigint, r.waiting_since::bigint, r.created_at::bigint,
       r.attempts::integer, r.crashes::integer, r.iterations::integer,
       r.last_iteration::bigint, r.headers, r.overrides, r.claimed_at::bigint,
       r.worker, r.error, r.ended_at::bigint, r.cause, r.fingerprint, r.title,
       r.key_values
from rows from (
    string_to_table(:queue, E'\x1e', E'\x15'),
    string_to_table(:id, E'\x1e', E'\x15'),
    string_to_table(:payload, E'\x1e', E'\x15'),
    string_to_table(:format, E'\x1e', E'\x15'),
    string_to_table(:subject, E'\x1e', E'\x15'),
    string_to_table(:priority, E'\x1e', E'\x15'),
    string_to_table(:state, E'\x1e', E'\x15'),
    string_to_table(:position, E'\x1e', E'\x15'),
    string_to_table(:next_execution, E'\x1e', E'\x15'),
    string_to_table(:waiting_since, E'\x1e', E'\x15'),
    string_to_table(:created_at, E'\x1e', E'\x15'),
    string_to_table(:attempts, E'\x1e', E'\x15'),
    string_to_table(:crashes, E'\x1e', E'\x15'),
    string_to_table(:iterations, E'\x1e', E'\x15'),
    string_to_table(:last_iteration, E'\x1e', E'\x15'),
    string_to_table(:headers, E'\x1e', E'\x15'),
    string_to_table(:overrides, E'\x1e', E'\x15'),
    string_to_table(:claimed_at, E'\x1e', E'\x15'),
    string_to_table(:worker, E'\x1e', E'\x15'),
    string_to_table(:error, E'\x1e', E'\x15'),
    string_to_table(:ended_at, E'\x1e', E'\x15'),
    string_to_table(:cause, E'\x1e', E'\x15'),
    string_to_table(:fingerprint, E'\x1e', E'\x15'),
    string_to_table(:title, E'\x1e', E'\x15'),
    string_to_table(:key_values, E'\x1e', E'\x15')
) with ordinality as r (
    queue, id, payload, format, subject, priority, state, position, next_execution,
    waiting_since, created_at, attempts, crashes, iterations, last_iteration, headers,
    overrides, claimed_at, worker, error, ended_at, cause, fingerprint, title,
    key_values, n
);

-- name: find_finished
-- A finished item.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace.finished_item
where queue = :queue and id = :id;

-- name: lock_finished
-- The same, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace.finished_item
where queue = :queue and id = :id
for no key update;

-- name: find_finished_subject
-- The item of a subject that finished last.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace.finished_item
where queue = :queue and subject = :subject
order by ended_at desc, id desc
limit 1;

-- name: list_finished
-- Finished items in a state, by id.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace.finished_item
where queue = :queue and state = :state and id > :after
order by id
limit :limit;

-- name: dead_items
-- Dead items that match, by id.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace.finished_item
where queue = :queue and state = -1 and id > :after
  and (:ids::bigint[] is null or id = any(:ids::bigint[]))
  and (:fingerprint::text is null or fingerprint = :fingerprint)
  and (:subject::text is null or subject = :subject)
  and (:cause::text is null or cause = :cause)
  and (:before_time::bigint is null or ended_at < :before_time)
  and (:after_time::bigint is null or ended_at > :after_time)
order by id
limit :limit
for no key update;

-- name: read_dead
-- The same, without a lock.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace.finished_item
where queue = :queue and state = -1 and id > :after
  and (:ids::bigint[] is null or id = any(:ids::bigint[]))
  and (:fingerprint::text is null or fingerprint = :fingerprint)
  and (:subject::text is null or subject = :subject)
  and (:cause::text is null or cause = :cause)
  and (:before_time::bigint is null or ended_at < :before_time)
  and (:after_time::bigint is null or ended_at > :after_time)
order by id
limit :limit;

-- name: count_dead
-- How many dead items match.
select count(*) as count
from headrace.finished_item
where queue = :queue and state = -1 and id > :after
  and (:ids::bigint[] is null or id = any(:ids::bigint[]))
  and (:fingerprint::text is null or fingerprint = :fingerprint)
  and (:subject::text is null or subject = :subject)
  and (:cause::text is null or cause = :cause)
  and (:before_time::bigint is null or ended_at < :before_time)
  and (:after_time::bigint is null or ended_at > :after_time);

-- name: dead_groups
-- Dead items that failed alike.
select g.fingerprint, e.title, e.cause, g.count, g.first_at, g.last_at, g.example
from (select fingerprint, count(*) as count, min(ended_at) as first_at, max(ended_at) as last_at,
             max(id) as example
      from headrace.finished_item where queue = :queue and state = -1 group by fingerprint) g
join headrace.finished_item e on e.id = g.example
order by g.count desc, g.fingerprint;

-- name: save_finished
-- Change a finished item.
update headrace.finished_item
set payload = :payload, format = :format, priority = :priority, next_execution = :next_execution
where id = :id;

-- name: remove_finished
-- Delete finished items.
delete from headrace.finished_item where queue = :queue and id = any(:ids::bigint[]);

-- name: drop_finished
-- Delete finished items that are too old.
delete from headrace.finished_item where id = any(array(
    select id from headrace.finished_item
    where queue = :queue and state = :state and ended_at <= :at
    order by ended_at, id limit :limit))
returning id;

-- name: count_finished
-- How many finished items are kept in each state.
select state, count(*) as count from headrace.finished_item where queue = :queue group by state;
