-- Statements on queues: their settings, and what is kept of their past.

-- name: read_clock
-- The time.
select coalesce(:now::bigint, headrace.clock()) as now;

-- name: find_queue
-- A queue by name, dropped ones with data included, and the clock.
select id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until,
       has_channels, selections, limit_version,
       coalesce(:now::bigint, headrace.clock()) as now
from headrace.queue
where name = :name;

-- name: lock_queue
-- The same, locked against changes by other transactions.
select id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until,
       has_channels, selections, limit_version,
       coalesce(:now::bigint, headrace.clock()) as now
from headrace.queue
where name = :name
for no key update;

-- name: add_queue
-- Create a queue unless the name is in use.
insert into headrace.queue (name, settings, version, created_at, is_live, is_paused, limit_version)
values (:name, :settings, 1, :created_at, true, false,
        coalesce((select v.version from headrace.limit_version v
                  where exists (select 1 from headrace.limit_rule r
                                where r.queue in ('*', :name) and r.key_values = '{}')), 0))
on conflict (name) do nothing;

-- name: save_queue
-- Store what has changed in a locked queue.
update headrace.queue
set settings = :settings, version = :version, created_at = :created_at, is_live = :is_live,
    is_paused = :is_paused, paused_by = :paused_by, frozen_until = :frozen_until
where id = :id;

-- name: list_queues
-- Queues by name.
select id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until,
       has_channels, selections, limit_version,
       coalesce(:now::bigint, headrace.clock()) as now
from headrace.queue
where is_live and name > :after and name >= :prefix and starts_with(name, :prefix)
order by name
limit :limit;

-- name: read_defaults
-- The settings that new queues get, if they were ever changed.
select settings from headrace.queue_default;

-- name: save_defaults
-- Change them.
insert into headrace.queue_default (id, settings) values (1, :settings)
on conflict (id) do update set settings = excluded.settings;

-- name: remove_queue
-- Remove a queue's row.
delete from headrace.queue where id = :queue;

-- name: remove_all_items
-- Remove a queue's live items.
delete from headrace.item where queue = :queue;

-- name: remove_all_finished
-- Delete a queue's finished items.
delete from headrace.finished_item where queue = :queue;

-- name: remove_all_used
-- Forget the subjects that were used in a queue.
delete from headrace.used_subject where queue = :queue;

-- name: remove_all_errors
-- Remove a queue's error series.
delete from headrace.error where queue = :queue;

-- name: remove_all_samples
-- Remove a queue's metric series.
delete from headrace.sample where queue = :queue;

-- name: remove_tallies
-- Remove a queue's counts.
delete from headrace.tally where queue = :queue;

-- name: add_errors
-- Add to the error series.
insert into headrace.error (queue, at, item, subject, attempt, worker, failure)
select r.queue::integer, r.at::bigint, r.item::bigint, r.subject, r.attempt::integer, r.worker, r.failure
from rows from (
    string_to_table(:queue, E'\x1e', E'\x15'), string_to_table(:at, E'\x1e', E'\x15'),
    string_to_table(:item, E'\x1e', E'\x15'), string_to_table(:subject, E'\x1e', E'\x15'),
    string_to_table(:attempt, E'\x1e', E'\x15'), string_to_table(:worker, E'\x1e', E'\x15'),
    string_to_table(:failure, E'\x1e', E'\x15')
) with ordinality as r (queue, at, item, subject, attempt, worker, failure, n)
order by r.n;

-- name: list_errors
-- The error series, newest first.
select id, at, item, subject, attempt, worker, failure
from headrace.error
where queue = :queue and id < :before and (:item::bigint is null or item = :item)
order by id desc
limit :limit;

-- name: drop_errors
-- Remove errors that are too old.
delete from headrace.error where id = any(array(
    select id from headrace.error where queue = :queue and at <= :at order by at, id limit :limit))
returning id;

-- name: last_sample
-- The time of the last sample of the metric series.
select max(at) as at from headrace.sample where queue = :queue;

-- name: add_sample
-- Add to the metric series.
insert into headrace.sample (queue, at, counts) values (:queue, :at, :counts)
on conflict (queue, at) do nothing;

-- name: list_samples
-- The metric series from a time on.
select at, counts from headrace.sample
where queue = :queue and at >= :since order by at limit :limit;

-- name: drop_samples
-- Remove samples that are too old.
delete from headrace.sample where queue = :queue and at = any(array(
    select at from headrace.sample where queue = :queue and at <= :at order by at limit :limit))
returning at;

-- name: find_used
-- When subjects were last used.
select subject, at from headrace.used_subject where queue = :queue and subject = any(:subjects::text[]);

-- name: use_subject
-- Record that a subject was used.
insert into headrace.used_subject (queue, subject, at) values (:queue, :subject, :at)
on conflict (queue, subject) do update set at = excluded.at;

-- name: reserve_subjects
-- Reserve subjects that have not been in use since a time; returns those that it reserved.
insert into headrace.used_subject as u (queue, subject, at)
select :queue::integer, s.subject, :at::bigint
from unnest(:subjects::text[]) as s (subject) order by s.subject
on conflict (queue, subject) do update set at = excluded.at where u.at <= :since::bigint
returning subject;

-- name: free_subject
-- Forget that a subject was used.
delete from headrace.used_subject where queue = :queue and subject = :subject;

-- name: drop_used
-- Forget subjects that were used long ago.
delete from headrace.used_subject where queue = :queue and subject = any(array(
    select subject from headrace.used_subject where queue = :queue and at <= :at
    order by at, subject limit :limit))
returning subject;

-- name: add_tally
-- Add to a queue's counts.
insert into headrace.tally (queue, planned, pending, active, completed, dead, entered, picked,
                           processed, rescheduled, rejected, dropped, orphaned, errors)
values (:queue, :planned, :pending, :active, :completed, :dead, :entered, :picked, :processed,
        :rescheduled, :rejected, :dropped, :orphaned, :errors);

-- name: sum_tallies
-- A queue's counts.
select coalesce(sum(planned), 0)::bigint as planned, coalesce(sum(pending), 0)::bigint as pending, coalesce(sum(active), 0)::bigint as active, coalesce(sum(completed), 0)::bigint as completed, coalesce(sum(dead), 0)::bigint as dead, coalesce(sum(entered), 0)::bigint as entered, coalesce(sum(picked), 0)::bigint as picked, coalesce(sum(processed), 0)::bigint as processed, coalesce(sum(rescheduled), 0)::bigint as rescheduled, coalesce(sum(rejected), 0)::bigint as rejected, coalesce(sum(dropped), 0)::bigint as dropped, coalesce(sum(orphaned), 0)::bigint as orphaned, coalesce(sum(errors), 0)::bigint as errors
from headrace.tally where queue = :queue;

-- name: fold_tallies
-- Make one row of the many.
-- Receipts are kept for two minutes, which is longer than any client asks for one.
with gone as (
    delete from headrace.tally
    where queue = :queue and (id is null or at <= coalesce(:now::bigint, headrace.clock()) - 120000)
    returning *
)
insert into headrace.tally (queue, planned, pending, active, completed, dead, entered, picked, processed, rescheduled, rejected, dropped, orphaned, errors)
select queue, sum(planned), sum(pending), sum(active), sum(completed), sum(dead), sum(entered), sum(picked), sum(processed), sum(rescheduled), sum(rejected), sum(dropped), sum(orphaned), sum(errors) from gone group by queue;

-- name: compare_tallies
-- By how much the running counts are wrong, all seen at one moment.
select (select count(*) from headrace.item where queue = :queue and state = 0)
           - (select coalesce(sum(planned), 0) from headrace.tally where queue = :queue)::bigint as planned,
       (select count(*) from headrace.item where queue = :queue and state = 1)
           - (select coalesce(sum(pending), 0) from headrace.tally where queue = :queue)::bigint as pending,
       (select count(*) from headrace.item where queue = :queue and state = 2)
           - (select coalesce(sum(active), 0) from headrace.tally where queue = :queue)::bigint as active,
       (select count(*) from headrace.finished_item where queue = :queue and state = 3)
           - (select coalesce(sum(completed), 0) from headrace.tally where queue = :queue)::bigint as completed,
       (select count(*) from headrace.finished_item where queue = :queue and state = -1)
           - (select coalesce(sum(dead), 0) from headrace.tally where queue = :queue)::bigint as dead;
