-- Channels: lines inside a queue, each named by key-values.

-- key_values is the form of a channel's key-values: one text for the same keys and values. Rows
-- stay for a while when their last item is gone: what has no items is no channel. It is
-- remembered whether the channel has ever had an item that gives its place to newer ones.
create table headrace_channel (
    id             integer primary key autoincrement,
    queue          integer not null,
    key_values     text not null,
    created_at     integer not null,
    has_updateable integer not null default 0,
    lane           integer not null default 0
);
create unique index headrace_channel_name on headrace_channel (queue, key_values);

-- Channels that have something in line, by when it was their turn.
create table headrace_ready (
    channel integer primary key,
    queue   integer not null,
    lane    integer not null default 0,
    turn    integer not null
);
create index headrace_ready_turn on headrace_ready (queue, lane, turn);

-- Queries that claims select by, each by its form; since is the number that the queue's selections
-- had with it.
create table headrace_selection (
    id      integer primary key autoincrement,
    queue   integer not null,
    form    text not null,
    since   integer not null,
    seen_at integer not null
);
create unique index headrace_selection_form on headrace_selection (queue, form);

-- Channels that the same of a queue's selections select, of those that there were when the number
-- of selections was version: their ids, each between commas. A lane never changes, nor do the
-- key-values of a channel; so what is in a lane is there by right, whoever put it there. Channels
-- in no lane (0), or in one that is older than a selection, may be selected by it or not.
create table headrace_lane (
    id         integer primary key autoincrement,
    queue      integer not null,
    version    integer not null,
    selections text not null
);
create unique index headrace_lane_selections on headrace_lane (queue, version, selections);

-- Items that went with their channel while they were out.
create table headrace_gone (
    item  integer primary key,
    queue integer not null,
    token text not null,
    at    integer not null
);
create index headrace_gone_time on headrace_gone (queue, at);

-- Channels of which nothing runs before a time.
create table headrace_channel_hold (
    queue      integer not null,
    key_values text not null,
    until      integer not null,
    primary key (queue, key_values)
);
create index headrace_channel_hold_end on headrace_channel_hold (queue, until);

alter table headrace_queue add column has_channels integer not null default 0;
alter table headrace_queue add column selections integer not null default 0;
alter table headrace_item add column key_values text;
alter table headrace_ended add column key_values text;
create index headrace_item_channel on headrace_item (channel, state, rank, position)
    where channel <> 0;
