-- Files: channels that wait for room in a total, out of the way of claims.

-- Of a queue's channels, those that a total (bucket, 0 for none) holds back at a limit (most) take
-- their turns in the lane with the number of the file below zero.
create table headrace_limit_file (
    id     integer primary key autoincrement,
    queue  integer not null,
    bucket integer not null,
    most   integer not null
);
create unique index headrace_limit_file_total on headrace_limit_file (queue, bucket, most);
