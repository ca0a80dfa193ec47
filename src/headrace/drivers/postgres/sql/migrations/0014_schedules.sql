-- Actions at due times. definition is JSON: what the schedule does, and when. due is the next due time,
-- fire_at when it is fired, null while the schedule is paused; every due time is later than passed.
-- skipped is JSON: how many due times were skipped, by reason. zone_data is the version of the time zone
-- data that due was computed by, null where no time zone matters. A transaction that fires or changes a
-- schedule locks its row.
create table headrace.schedule (
    name       text collate "C" primary key,
    definition text not null,
    state      text not null,
    anchor     bigint not null,
    passed     bigint not null,
    due        bigint,
    fire_at    bigint,
    prev_due   bigint,
    fired_at   bigint,
    fires      bigint not null,
    skipped    text not null,
    attempts   integer not null,
    error      text,
    zone_data  text,
    version    integer not null,
    created_at bigint not null
);
create index schedule_fire on headrace.schedule (fire_at, name) where fire_at is not null;
