-- Statements on files: channels that wait for room in a total.

-- name: open_files
-- Files of a queue whose total is below the limit, or gone.
select f.id, f.bucket, f.most from headrace_limit_file f
left join headrace_bucket b on b.id = f.bucket
where f.queue = :queue and coalesce(b.used, 0) < f.most;

-- name: add_files
-- Make files that are not there.
insert into headrace_limit_file (queue, bucket, most) values (:queue, :bucket, :most)
on conflict (queue, bucket, most) do nothing;

-- name: file_channels
-- Put channels into files.
update headrace_ready
set lane = -(select id from headrace_limit_file
             where queue = :queue and bucket = :bucket and most = :most)
where channel = :channel;

-- name: unfile_channels
-- Let channels take turns in their lanes again.
update headrace_ready
set lane = (select c.lane from headrace_channel c where c.id = headrace_ready.channel)
where channel in (select value from json_each(:channels)) and lane < 0;

-- name: drop_files
-- Remove files that nothing is in.
delete from headrace_limit_file where id in (select value from json_each(:ids));

-- name: await_files
-- A queue waits for room in the totals of its files.
insert into headrace_limit_wait (bucket, queue)
select b.id, f.queue from headrace_limit_file f join headrace_bucket b on b.id = f.bucket
where f.queue = :queue and b.used >= f.most
on conflict (bucket, queue) do nothing;

-- name: await_filed
-- Remember it with the totals.
update headrace_bucket set is_awaited = true
where not is_awaited
  and id in (select b.id from headrace_limit_file f join headrace_bucket b on b.id = f.bucket
             where f.queue = :queue and b.used >= f.most);

-- name: unfile_queues
-- Let all channels of some queues take turns in their lanes again.
update headrace_ready
set lane = (select c.lane from headrace_channel c where c.id = headrace_ready.channel)
where queue in (select value from json_each(:queues)) and lane < 0;

-- name: remove_files
-- Remove all files of some queues.
delete from headrace_limit_file where queue in (select value from json_each(:queues));
