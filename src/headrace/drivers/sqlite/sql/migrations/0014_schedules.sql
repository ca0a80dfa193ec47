-- Actions at due times. definition is JSON: what the schedule does, and when. due is the next due time,
-- fire_at when it is fired, null while the schedule is paused; every due time is later than passed.
-- skipped is JSON: how many due times were skipped, by reason. zone_data is the version of the time zone
-- data that due was computed by, null where no time zone matters.
create table headrace_schedule (
    name       text primary key,
    definition text not null,
    state      text not null,
    anchor     integer not null,
    passed     integer not null,
    due        integer,
    fire_at    integer,
    prev_due   integer,
    fired_at   integer,
    fires      integer not null,
    skipped    text not null,
    attempts   integer not null,
    error      text,
    zone_data  text,
    version    integer not null,
    created_at integer not null
);
create index headrace_schedule_fire on headrace_schedule (fire_at, name) where fire_at is not null;
