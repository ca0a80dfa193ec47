-- One name per option, for procs, queues and items: lease, max_attempts, on_exhausted, chunk,
-- concurrency.

alter table headrace_proc rename column reclaims to attempts;
alter table headrace_proc rename column max_reclaims to max_attempts;
alter table headrace_proc rename column reclaim_timeout to lease;
alter table headrace_proc rename column on_max_reclaims_reached to on_exhausted;

-- A name between quotes and before a colon is a key: quotes inside of values are escaped.
update headrace_queue set settings =
    replace(replace(replace(replace(settings,
        '"lock_duration":', '"lease":'),
        '"dead_threshold":', '"max_attempts":'),
        '"worker_chunk":', '"chunk":'),
        '"worker_concurrency":', '"concurrency":');
update headrace_queue_default set settings =
    replace(replace(replace(replace(settings,
        '"lock_duration":', '"lease":'),
        '"dead_threshold":', '"max_attempts":'),
        '"worker_chunk":', '"chunk":'),
        '"worker_concurrency":', '"concurrency":');
update headrace_item set overrides = replace(overrides, '"timeout":', '"lease":')
where overrides like '%"timeout":%';
update headrace_finished_item set overrides = replace(overrides, '"timeout":', '"lease":')
where overrides like '%"timeout":%';

-- The overrides of a successor are JSON text inside of JSON, beside the payload.
update headrace_item set successor = json_set(
    successor, '$.overrides',
    replace(json_extract(successor, '$.overrides'), '"timeout":', '"lease":'))
where json_extract(successor, '$.overrides') like '%"timeout":%';
