-- Statements on queues: their settings, and what is kept of their past.

-- name: read_clock
-- The time.
select coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now;

-- name: find_queue
-- A queue by name, dropped ones with data included, and the clock.
select id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until,
       has_channels, selections, limit_version,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_queue
where name = :name;

-- name: lock_queue
-- The same, locked against changes by other transactions.
select id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until,
       has_channels, selections, limit_version,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_queue
where name = :name;

-- name: add_queue
-- Create a queue unless the name is in use.
insert into headrace_queue (name, settings, version, created_at, is_live, is_paused, limit_version)
values (:name, :settings, 1, :created_at, true, false,
        coalesce((select v.version from headrace_limit_version v
                  where exists (select 1 from headrace_limit_rule r
                                where r.queue in ('*', :name) and r.key_values = '{}')), 0))
on conflict (name) do nothing;

-- name: save_queue
-- Store what has changed in a locked queue.
update headrace_queue
set settings = :settings, version = :version, created_at = :created_at, is_live = :is_live,
    is_paused = :is_paused, paused_by = :paused_by, frozen_until = :frozen_until
where id = :id;

-- name: list_queues
-- Queues by name.
select id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until,
       has_channels, selections, limit_version,
       coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now
from headrace_queue
where is_live and name > :after and name >= :prefix and substr(name, 1, length(:prefix)) = :prefix
order by name
limit :limit;

-- name: read_defaults
-- The settings that new queues get, if they were ever changed.
select settings from headrace_queue_default;

-- name: save_defaults
-- Change them.
insert into headrace_queue_default (id, settings) values (1, :settings)
on conflict (id) do update set settings = excluded.settings;

-- name: remove_queue
-- Remove a queue's row.
delete from headrace_queue where id = :queue;

-- name: remove_all_items
-- Remove a queue's live items.
delete from headrace_item where queue = :queue;

-- name: remove_all_finished
-- Delete a queue's finished items.
delete from headrace_finished_item where queue = :queue;

-- name: remove_all_used
-- Forget the subjects that were used in a queue.
delete from headrace_used_subject where queue = :queue;

-- name: remove_all_errors
-- Remove a queue's error series.
delete from headrace_error where queue = :queue;

-- name: remove_all_samples
-- Remove a queue's metric series.
delete from headrace_sample where queue = :queue;

-- name: remove_tallies
-- Remove a queue's counts.
delete from headrace_tally where queue = :queue;

-- name: add_errors
-- Add to the error series.
insert into headrace_error (queue, at, item, subject, attempt, worker, failure)
values (:queue, :at, :item, :subject, :attempt, :worker, :failure);

-- name: list_errors
-- The error series, newest first.
select id, at, item, subject, attempt, worker, failure
from headrace_error
where queue = :queue and id < :before and (:item is null or item = :item)
order by id desc
limit :limit;

-- name: drop_errors
-- Remove errors that are too old.
delete from headrace_error where id in (
    select id from headrace_error where queue = :queue and at <= :at order by at, id limit :limit)
returning id;

-- name: last_sample
-- The time of the last sample of the metric series.
select max(at) as at from headrace_sample where queue = :queue;

-- name: add_sample
-- Add to the metric series.
insert into headrace_sample (queue, at, counts) values (:queue, :at, :counts)
on conflict (queue, at) do nothing;

-- name: list_samples
-- The metric series from a time on.
select at, counts from headrace_sample
where queue = :queue and at >= :since order by at limit :limit;

-- name: drop_samples
-- Remove samples that are too old.
delete from headrace_sample where queue = :queue and at in (
    select at from headrace_sample where queue = :queue and at <= :at order by at limit :limit)
returning at;

-- name: find_used
-- When subjects were last used.
select subject, at from headrace_used_subject where queue = :queue and subject in (select value from json_each(:subjects));

-- name: use_subject
-- Record that a subject was used.
insert into headrace_used_subject (queue, subject, at) values (:queue, :subject, :at)
on conflict (queue, subject) do update set at = excluded.at;

-- name: reserve_subjects
-- Reserve subjects that have not been in use since a time; returns those that it reserved.
insert into headrace_used_subject (queue, subject, at)
select :queue, value, :at from json_each(:subjects) where true order by value
on conflict (queue, subject) do update set at = excluded.at where headrace_used_subject.at <= :since
returning subject;

-- name: free_subject
-- Forget that a subject was used.
delete from headrace_used_subject where queue = :queue and subject = :subject;

-- name: drop_used
-- Forget subjects that were used long ago.
delete from headrace_used_subject where queue = :queue and subject in (
    select subject from headrace_used_subject where queue = :queue and at <= :at
    order by at, subject limit :limit)
returning subject;

-- name: add_tally
-- Add to a queue's counts.
insert into headrace_tally (queue, planned, pending, active, completed, dead, entered, picked,
                           processed, rescheduled, rejected, dropped, orphaned, errors)
values (:queue, :planned, :pending, :active, :completed, :dead, :entered, :picked, :processed,
        :rescheduled, :rejected, :dropped, :orphaned, :errors)
on conflict (queue) do update set
    planned = planned + excluded.planned,
    pending = pending + excluded.pending,
    active = active + excluded.active,
    completed = completed + excluded.completed,
    dead = dead + excluded.dead,
    entered = entered + excluded.entered,
    picked = picked + excluded.picked,
    processed = processed + excluded.processed,
    rescheduled = rescheduled + excluded.rescheduled,
    rejected = rejected + excluded.rejected,
    dropped = dropped + excluded.dropped,
    orphaned = orphaned + excluded.orphaned,
    errors = errors + excluded.errors;

-- name: sum_tallies
-- A queue's counts.
select coalesce(sum(planned), 0) as planned, coalesce(sum(pending), 0) as pending, coalesce(sum(active), 0) as active, coalesce(sum(completed), 0) as completed, coalesce(sum(dead), 0) as dead, coalesce(sum(entered), 0) as entered, coalesce(sum(picked), 0) as picked, coalesce(sum(processed), 0) as processed, coalesce(sum(rescheduled), 0) as rescheduled, coalesce(sum(rejected), 0) as rejected, coalesce(sum(dropped), 0) as dropped, coalesce(sum(orphaned), 0) as orphaned, coalesce(sum(errors), 0) as errors
from headrace_tally where queue = :queue;

-- name: fold_tallies
-- Make one row of the many.
-- There is only one here.
select queue from headrace_tally where queue = :queue and :now is not 0;

-- name: compare_tallies
-- By how much the running counts are wrong, all seen at one moment.
select (select count(*) from headrace_item where queue = :queue and state = 0)
           - (select coalesce(sum(planned), 0) from headrace_tally where queue = :queue) as planned,
       (select count(*) from headrace_item where queue = :queue and state = 1)
           - (select coalesce(sum(pending), 0) from headrace_tally where queue = :queue) as pending,
       (select count(*) from headrace_item where queue = :queue and state = 2)
           - (select coalesce(sum(active), 0) from headrace_tally where queue = :queue) as active,
       (select count(*) from headrace_finished_item where queue = :queue and state = 3)
           - (select coalesce(sum(completed), 0) from headrace_tally where queue = :queue) as completed,
       (select count(*) from headrace_finished_item where queue = :queue and state = -1)
           - (select coalesce(sum(dead), 0) from headrace_tally where queue = :queue) as dead;
