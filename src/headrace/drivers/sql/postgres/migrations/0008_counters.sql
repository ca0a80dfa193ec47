-- Counters of user code, which count under the rules of limits as running items do.

-- A session holds so many until its lease is over; what was set has no lease, and = and the
-- key-values in place of a session. Whoever changes a row changes the totals with it.
create table headrace.counter (
    session    text primary key,
    key_values text collate "C" not null,
    count      bigint not null,
    until      bigint,
    holder     text,
    since      bigint not null
);
create index counter_end on headrace.counter (until) where until is not null;
create index counter_name on headrace.counter (key_values);
