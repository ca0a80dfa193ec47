-- Statements on items that have ended: completed, or dead.

-- name: add_finished
-- Store finished items.
insert into headrace_finished_item (
    queue, id, payload, format, subject, priority, state, position, next_execution,
    waiting_since, created_at, attempts, crashes, iterations, last_iteration, headers,
    overrides, claimed_at, worker, error, ended_at, cause, fingerprint, title,
    key_values
)
values (
    :queue, :id, :payload, :format, :subject, :priority, :state, :position,
    :next_execution, :waiting_since, :created_at, :attempts, :crashes, :iterations,
    :last_iteration, :headers, :overrides, :claimed_at, :worker, :error, :ended_at,
    :cause, :fingerprint, :title, :key_values
);

-- name: find_finished
-- A finished item.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace_finished_item
where queue = :queue and id = :id;

-- name: lock_finished
-- The same, locked.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace_finished_item
where queue = :queue and id = :id;

-- name: find_finished_subject
-- The item of a subject that finished last.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace_finished_item
where queue = :queue and subject = :subject
order by ended_at desc, id desc
limit 1;

-- name: list_finished
-- Finished items in a state, by id.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace_finished_item
where queue = :queue and state = :state and id > :after
order by id
limit :limit;

-- name: dead_items
-- Dead items that match, by id.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace_finished_item
where queue = :queue and state = -1 and id > :after
  and (:ids is null or id in (select value from json_each(:ids)))
  and (:fingerprint is null or fingerprint = :fingerprint)
  and (:subject is null or subject = :subject)
  and (:cause is null or cause = :cause)
  and (:before_time is null or ended_at < :before_time)
  and (:after_time is null or ended_at > :after_time)
order by id
limit :limit;

-- name: read_dead
-- The same, without a lock.
select id, payload, format, subject, priority, state, position, next_execution,
       waiting_since, created_at, attempts, crashes, iterations, last_iteration,
       headers, overrides, claimed_at, worker, error, ended_at, cause, fingerprint,
       title, key_values
from headrace_finished_item
where queue = :queue and state = -1 and id > :after
  and (:ids is null or id in (select value from json_each(:ids)))
  and (:fingerprint is null or fingerprint = :fingerprint)
  and (:subject is null or subject = :subject)
  and (:cause is null or cause = :cause)
  and (:before_time is null or ended_at < :before_time)
  and (:after_time is null or ended_at > :after_time)
order by id
limit :limit;

-- name: count_dead
-- How many dead items match.
select count(*) as count
from headrace_finished_item
where queue = :queue and state = -1 and id > :after
  and (:ids is null or id in (select value from json_each(:ids)))
  and (:fingerprint is null or fingerprint = :fingerprint)
  and (:subject is null or subject = :subject)
  and (:cause is null or cause = :cause)
  and (:before_time is null or ended_at < :before_time)
  and (:after_time is null or ended_at > :after_time);

-- name: dead_groups
-- Dead items that failed alike.
select g.fingerprint, e.title, e.cause, g.count, g.first_at, g.last_at, g.example
from (select fingerprint, count(*) as count, min(ended_at) as first_at, max(ended_at) as last_at,
             max(id) as example
      from headrace_finished_item where queue = :queue and state = -1 group by fingerprint) g
join headrace_finished_item e on e.id = g.example
order by g.count desc, g.fingerprint;

-- name: save_finished
-- Change a finished item.
update headrace_finished_item
set payload = :payload, format = :format, priority = :priority, next_execution = :next_execution
where id = :id;

-- name: remove_finished
-- Delete finished items.
delete from headrace_finished_item where queue = :queue and id in (select value from json_each(:ids));

-- name: drop_finished
-- Delete finished items that are too old.
delete from headrace_finished_item where id in (
    select id from headrace_finished_item
    where queue = :queue and state = :state and ended_at <= :at
    order by ended_at, id limit :limit)
returning id;

-- name: count_finished
-- How many finished items are kept in each state.
select state, count(*) as count from headrace_finished_item where queue = :queue group by state;
