-- One name per thing: a queue is frozen, limit_version is the version of all limit rules, bound_version
-- the one that a channel's counters are of, and max_used what a counter's used may reach.

alter table headrace.queue rename column held_until to frozen_until;
alter table headrace.queue rename column limits to limit_version;
alter table headrace.queue rename column rules to bound_version;
alter table headrace.queue rename column most to max_used;
alter table headrace.channel rename column rules to bound_version;
alter table headrace.channel rename column most to max_used;
alter table headrace.limit_rule rename column most to max_used;
alter table headrace.limit_override rename column most to max_used;
