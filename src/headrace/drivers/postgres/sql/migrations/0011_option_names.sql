-- One name per option, for procs, queues and items: lease, max_attempts, on_exhausted, chunk,
-- concurrency.

alter table headrace.proc rename column reclaims to attempts;
alter table headrace.proc rename column max_reclaims to max_attempts;
alter table headrace.proc rename column reclaim_timeout to lease;
alter table headrace.proc rename column on_max_reclaims_reached to on_exhausted;

-- A name between quotes and before a colon is a key: quotes inside of values are escaped.
update headrace.queue set settings =
    replace(replace(replace(replace(settings,
        '"lock_duration":', '"lease":'),
        '"dead_threshold":', '"max_attempts":'),
        '"worker_chunk":', '"chunk":'),
        '"worker_concurrency":', '"concurrency":');
update headrace.queue_default set settings =
    replace(replace(replace(replace(settings,
        '"lock_duration":', '"lease":'),
        '"dead_threshold":', '"max_attempts":'),
        '"worker_chunk":', '"chunk":'),
        '"worker_concurrency":', '"concurrency":');
update headrace.item set overrides = replace(overrides, '"timeout":', '"lease":')
where overrides like '%"timeout":%';
update headrace.finished_item set overrides = replace(overrides, '"timeout":', '"lease":')
where overrides like '%"timeout":%';

-- The overrides of a successor are JSON text inside of JSON, beside the payload.
update headrace.item set successor = jsonb_set(
    successor::jsonb, '{overrides}',
    to_jsonb(replace(successor::jsonb ->> 'overrides', '"timeout":', '"lease":')))::text
where successor::jsonb ->> 'overrides' like '%"timeout":%';
