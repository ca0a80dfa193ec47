-- Counters of user code, which count under the rules of limits as running items do.

-- A session holds so many until its lease is over; what was set has no lease, and = and the
-- key-values in place of a session. Whoever changes a row changes the totals with it.
create table headrace_counter (
    session    text primary key,
    key_values text not null,
    count      integer not null,
    until      integer,
    holder     text,
    since      integer not null
);
create index headrace_counter_end on headrace_counter (until) where until is not null;
create index headrace_counter_name on headrace_counter (key_values);
