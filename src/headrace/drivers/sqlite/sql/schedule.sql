-- Statements on schedules.

-- name: add_schedule
-- Create a schedule, unless there is one of this name.
insert into headrace_schedule (name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at)
values (:name, :definition, :state, :anchor, :passed, :due, :fire_at, :prev_due, :fired_at, :fires,
        :skipped, :attempts, :error, :zone_data, :version, :created_at)
on conflict (name) do nothing
returning name;

-- name: find_schedule
-- A schedule as it is.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace_schedule
where name = :name;

-- name: lock_schedule
-- A schedule, locked against changes by other transactions.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace_schedule
where name = :name;

-- name: list_schedules
-- Schedules by name.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace_schedule
where name > :after and name >= :prefix and substr(name, 1, length(:prefix)) = :prefix
order by name
limit :limit;

-- name: save_schedule
-- Replace the state of a locked schedule; sent once for each.
update headrace_schedule
set definition = :definition, state = :state, anchor = :anchor, passed = :passed, due = :due,
    fire_at = :fire_at, prev_due = :prev_due, fired_at = :fired_at, fires = :fires,
    skipped = :skipped, attempts = :attempts, error = :error, zone_data = :zone_data,
    version = :version
where name = :name;

-- name: remove_schedule
-- Remove a schedule; returns what it was.
delete from headrace_schedule
where name = :name
returning name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at;

-- name: until_due
-- In how many milliseconds the next schedule fires; null if none does.
select min(fire_at) - coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as ms
from headrace_schedule
where fire_at is not null;

-- name: lock_due_schedules
-- The schedules that are due, the longest due first.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace_schedule
where fire_at <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
order by fire_at, name
limit :limit;

-- name: lock_zoned_schedules
-- Schedules whose due times follow older time zone data.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace_schedule
where zone_data < :version and due is not null
order by name;
