-- Statements on schedules.

-- name: add_schedule
-- Create a schedule, unless there is one of this name.
insert into headrace.schedule (name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at)
values (:name, :definition, :state, :anchor, :passed, :due, :fire_at, :prev_due, :fired_at, :fires,
        :skipped, :attempts, :error, :zone_data, :version, :created_at)
on conflict (name) do nothing
returning name;

-- name: find_schedule
-- A schedule as it is.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace.schedule
where name = :name;

-- name: lock_schedule
-- A schedule, locked against changes by other transactions.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace.schedule
where name = :name
for no key update;

-- name: list_schedules
-- Schedules by name.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace.schedule
where name > :after and name >= :prefix and starts_with(name, :prefix)
order by name
limit :limit;

-- name: save_schedule
-- Replace the state of locked schedules.
update headrace.schedule s
set definition = r.definition,
    state = r.state,
    anchor = r.anchor::bigint,
    passed = r.passed::bigint,
    due = r.due::bigint,
    fire_at = r.fire_at::bigint,
    prev_due = r.prev_due::bigint,
    fired_at = r.fired_at::bigint,
    fires = r.fires::bigint,
    skipped = r.skipped,
    attempts = r.attempts::integer,
    error = r.error,
    zone_data = r.zone_data,
    version = r.version::integer
from rows from (
    string_to_table(:name, E'\x1e', E'\x15'),
    string_to_table(:definition, E'\x1e', E'\x15'),
    string_to_table(:state, E'\x1e', E'\x15'),
    string_to_table(:anchor, E'\x1e', E'\x15'),
    string_to_table(:passed, E'\x1e', E'\x15'),
    string_to_table(:due, E'\x1e', E'\x15'),
    string_to_table(:fire_at, E'\x1e', E'\x15'),
    string_to_table(:prev_due, E'\x1e', E'\x15'),
    string_to_table(:fired_at, E'\x1e', E'\x15'),
    string_to_table(:fires, E'\x1e', E'\x15'),
    string_to_table(:skipped, E'\x1e', E'\x15'),
    string_to_table(:attempts, E'\x1e', E'\x15'),
    string_to_table(:error, E'\x1e', E'\x15'),
    string_to_table(:zone_data, E'\x1e', E'\x15'),
    string_to_table(:version, E'\x1e', E'\x15')
) r (name, definition, state, anchor, passed, due, fire_at, prev_due,
    fired_at, fires, skipped, attempts, error, zone_data, version)
where s.name = r.name;

-- name: remove_schedule
-- Remove a schedule; returns what it was.
delete from headrace.schedule
where name = :name
returning name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at;

-- name: until_due
-- In how many milliseconds the next schedule fires; null if none does.
select min(fire_at) - coalesce(:now::bigint, headrace.clock()) as ms
from headrace.schedule
where fire_at is not null;

-- name: lock_due_schedules
-- The schedules that are due, the longest due first, but for those that another caller is firing.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace.schedule
where fire_at <= coalesce(:now::bigint, headrace.clock())
order by fire_at, name
limit :limit
for no key update skip locked;

-- name: lock_zoned_schedules
-- Schedules whose due times follow older time zone data.
select name, definition, state, anchor, passed, due, fire_at, prev_due, fired_at, fires, skipped,
       attempts, error, zone_data, version, created_at
from headrace.schedule
where zone_data < :version and due is not null
order by name
for no key update;
