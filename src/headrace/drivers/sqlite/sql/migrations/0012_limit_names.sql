-- One name per thing: a queue is frozen, limit_version is the version of all limit rules, and max_used is
-- what a counter's used may reach.

alter table headrace_queue rename column held_until to frozen_until;
alter table headrace_queue rename column limits to limit_version;
alter table headrace_limit_rule rename column most to max_used;
alter table headrace_limit_override rename column most to max_used;
alter table headrace_parking_lane rename column most to max_used;
