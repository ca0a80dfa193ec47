delete from headrace_batch;
insert into headrace_batch (id, topic, base_seq, count, ts, times, body, headers, format, stage) values
    ('01a1edc7-4cd8-7000-8a7d-6620896ebc75', 1, 0, 10, 1518951480106, NULL, '{"n":0}
{"n":1}
{"n":2}
{"n":3}
{"n":4}
{"n":5}
{"n":6}
{"n":7}
{"n":8}
{"n":9}', NULL, 0, NULL),
    ('01a1edc7-4cdb-7000-850f-bc3b3fb9373e', 1, 10, 1, 1518951480106, NULL, '{"n":10}', '{"who":"me"}', 0, NULL),
    ('01a1edc7-4cee-7000-85e3-5dfbeb4f445a', 2, 0, 1, 1518951480106, NULL, '{"proc":"billing","topic":"orders","id":"1518951480106-1","body":{"n":1},"headers":{},"error":"torn","reclaims":1}', NULL, 0, NULL);
delete from headrace_error;
insert into headrace_error (id, queue, at, item, subject, attempt, worker, failure) values
    (1, 2, 1518951480106, 1, NULL, 1, 'host/1', '{"message":"torn"}');
delete from headrace_finished_item;
insert into headrace_finished_item (id, queue, state, position, priority, next_execution, waiting_since, created_at, attempts, crashes, iterations, last_iteration, format, subject, headers, overrides, claimed_at, worker, error, payload, ended_at, cause, fingerprint, title, key_values) values
    (1, 2, -1, 1, 0, 1518951480106, 1518951480106, 1518951480106, 1, 0, 1, 1518951480106, 0, NULL, NULL, '{"timeout":40.0}', 1518951480106, NULL, '{"message":"torn"}', '{"n":0}', 1518951480106, 'killed', '058832ba2abd', 'Rejected: torn', NULL),
    (2, 2, 3, 2, 0, 1518951480106, 1518951480106, 1518951480106, 0, 0, 1, 1518951480106, 0, NULL, NULL, '{"timeout":40.0}', 1518951480106, NULL, NULL, '{"n":1}', 1518951480106, 'completed', NULL, NULL, NULL);
delete from headrace_idempotency_key;
insert into headrace_idempotency_key (scope, key, until, digest, outcome) values
    ('commit', 'ten', 1519037880106, 'a567f87fb41dc98fd58d83ebd076c606', '{"type":"committed","ts":1518951480106,"spans":[{"topic":"orders","first_seq":10,"count":1}],"ahead_ms":0}');
delete from headrace_item;
insert into headrace_item (id, queue, state, rank, position, priority, channel, next_execution, waiting_since, created_at, attempts, crashes, iterations, last_iteration, format, subject, headers, overrides, token, lease_until, claimed_at, worker, error, successor, payload, key_values) values
    (3, 2, 2, 0, 3, 0, 0, 1518951480106, 1518951480106, 1518951480106, 1, 0, 0, NULL, 0, NULL, NULL, '{"timeout":40.0}', '3477ab7d99bce16041686dca4ed57592', 1518951520106, 1518951480106, 'host/1', NULL, NULL, '{"n":2}', NULL),
    (4, 2, 1, 0, 4, 0, 0, 1518951480106, 1518951480106, 1518951480106, 0, 0, 0, NULL, 0, NULL, NULL, '{"timeout":40.0}', NULL, NULL, NULL, NULL, NULL, NULL, '{"n":3}', NULL),
    (5, 2, 0, 0, NULL, 0, 0, 1518955080106, 1518951480106, 1518951480106, 0, 0, 0, NULL, 0, 'later', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"n":4}', NULL),
    (6, 3, 2, 0, 5, 0, 0, 1518951480106, 1518951480106, 1518951480106, 1, 0, 0, NULL, 0, 's', NULL, '{"max_attempts":8,"timeout":9.0}', '8d4609a0b1cb6f90f7f40f727aaed34a', 1518951489106, 1518951480106, 'host/1', NULL, '{"payload":"{\"timeout\":2}","format":0,"subject":"s","priority":0,"due":1518951480106,"delay":null,"headers":null,"overrides":"{\"timeout\":60.0}","key_values":null}', '{"timeout":1}', NULL),
    (7, 3, 1, 0, 6, 0, 0, 1518951480106, 1518951480106, 1518951480106, 0, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"timeout":3}', NULL);
delete from headrace_limit_version;
insert into headrace_limit_version (id, version) values
    (1, 0);
delete from headrace_lock_floor;
insert into headrace_lock_floor (id, fence) values
    (0, 0);
delete from headrace_proc;
insert into headrace_proc (id, name, topic, origin, cursor, created_at, status, last_claimed_at, turn, last_acked_at, last_claimed_range, last_acked_range, previous_claimed_range, reclaims, max_reclaims, reclaim_timeout, on_max_reclaims_reached, last_error, skipped, isolate_to, last_acked_token, last_ack, ttl, expires_at, pipeline, definition) values
    (1, 'stopped', 1, '>', 0, 1518951480106, 'disabled', 0, 0, 0, '', '', '', 0, 10, NULL, 'disable', NULL, '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (2, 'patient', 1, '>', 0, 1518951480106, 'active', 1518951480106, 0, 0, '', '', '', 1, 7, 10000, 'continue', 'torn', '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, 'billing', 1, '>', 3, 1518951480106, 'active', 1518951480106, 0, 1518951480106, '1518951480106-3..1518951480106-5', '1518951480106-0..1518951480106-2', '1518951480106-0..1518951480106-2', 0, 1, 2500, 'dead_letter', NULL, '[]', NULL, '94a8b28d6636a0ee3c592b2acf045785', '[null,{"range":"1518951480106-0..1518951480106-2","committed":null}]', NULL, NULL, NULL, NULL);
delete from headrace_proc_claim;
insert into headrace_proc_claim (proc, token, first_seq, last_seq, deadline) values
    (3, '96beb3352c1c818106b38327edcbb760', 3, 5, 1518951482606);
delete from headrace_queue;
insert into headrace_queue (id, name, settings, version, created_at, is_live, is_paused, paused_by, held_until, has_channels, selections, limits) values
    (1, 'plain', '{"discipline":"priority","lock_duration":300.0,"dead_threshold":5,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"worker_chunk":1,"worker_concurrency":1,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"skip","keep_superseded":null,"keep":"none","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}', 1, 1518951480106, 1, 0, NULL, NULL, 0, 0, 0),
    (2, 'mail', '{"discipline":"priority","lock_duration":300.0,"dead_threshold":5,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"worker_chunk":3,"worker_concurrency":4,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"next","keep_superseded":null,"keep":"all","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}', 1, 1518951480106, 1, 0, NULL, NULL, 0, 0, 0),
    (3, 'hasty', '{"discipline":"priority","lock_duration":77.0,"dead_threshold":2,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"worker_chunk":3,"worker_concurrency":4,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"skip","keep_superseded":null,"keep":"none","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}', 1, 1518951480106, 1, 0, NULL, NULL, 0, 0, 0);
delete from headrace_queue_default;
insert into headrace_queue_default (id, settings) values
    (1, '{"discipline":"priority","lock_duration":77.0,"dead_threshold":2,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"worker_chunk":3,"worker_concurrency":4,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"skip","keep_superseded":null,"keep":"none","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}');
delete from headrace_tally;
insert into headrace_tally (queue, planned, pending, active, completed, dead, entered, picked, processed, rescheduled, rejected, dropped, orphaned, errors) values
    (2, 1, 1, 1, 1, 1, 5, 3, 2, 0, 0, 0, 0, 1),
    (3, 0, 1, 1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0);
delete from headrace_topic;
insert into headrace_topic (id, name, next_seq, first_seq, last_ts, min_age, max_age) values
    (1, 'orders', 11, 0, 1518951480106, NULL, NULL),
    (2, 'billing-dead', 1, 0, 1518951480106, NULL, NULL);
delete from headrace_turn;
insert into headrace_turn (last) values
    (6);
delete from sqlite_sequence;
insert into sqlite_sequence (name, seq) values
    ('headrace_error', 1),
    ('headrace_item', 7),
    ('headrace_queue', 3);
