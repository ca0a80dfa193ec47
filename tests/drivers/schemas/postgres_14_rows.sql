set session_replication_role = replica;
delete from headrace.batch;
insert into headrace.batch (id, topic, base_seq, count, ts, times, body, headers, format, stage) overriding system value values
    ('01a1f069-5935-7000-8130-14f4560c1f55', '1', '0', '10', '1518951480106', NULL, '{"n":0}
{"n":1}
{"n":2}
{"n":3}
{"n":4}
{"n":5}
{"n":6}
{"n":7}
{"n":8}
{"n":9}', NULL, '0', NULL),
    ('01a1f069-593b-7000-8b25-a1e4544a4b77', '1', '10', '1', '1518951480106', NULL, '{"n":10}', '{"who":"me"}', '0', NULL),
    ('01a1f069-594c-7000-8089-27ba9e744f04', '2', '0', '1', '1518951480106', NULL, '{"proc":"billing","topic":"orders","id":"1518951480106-1","body":{"n":1},"headers":{},"error":"torn","attempts":1}', NULL, '0', NULL);
delete from headrace.commit_marker;
insert into headrace.commit_marker (connection, transaction, at) overriding system value values
    ('01a1f069-593d-7000-8a7d-c63b100a751d', '16', '1518951480106');
delete from headrace.error;
insert into headrace.error (id, queue, at, item, subject, attempt, worker, failure) overriding system value values
    ('1', '2', '1518951480106', '1', NULL, '1', 'host/1', '{"message":"torn"}');
delete from headrace.finished_item;
insert into headrace.finished_item (id, queue, state, "position", priority, next_execution, waiting_since, created_at, attempts, crashes, iterations, last_iteration, format, subject, headers, overrides, claimed_at, worker, error, payload, ended_at, cause, fingerprint, title, key_values) overriding system value values
    ('1', '2', '-1', '1', '0', '1518951480106', '1518951480106', '1518951480106', '1', '0', '1', '1518951480106', '0', NULL, NULL, '{"lease":40.0}', '1518951480106', NULL, '{"message":"torn"}', '{"n":0}', '1518951480106', 'killed', '058832ba2abd', 'Rejected: torn', NULL),
    ('2', '2', '3', '2', '0', '1518951480106', '1518951480106', '1518951480106', '0', '0', '1', '1518951480106', '0', NULL, NULL, '{"lease":40.0}', '1518951480106', NULL, NULL, '{"n":1}', '1518951480106', 'completed', NULL, NULL, NULL);
delete from headrace.idempotency_key;
insert into headrace.idempotency_key (scope, key, until, digest, outcome) overriding system value values
    ('commit', 'ten', '1519037880106', 'a567f87fb41dc98fd58d83ebd076c606', '{"type" : "committed", "ts" : 1518951480106, "spans" : [{"topic" : "orders", "first_seq" : 10, "count" : 1}], "ahead_ms" : 0}');
delete from headrace.item;
insert into headrace.item (id, queue, state, rank, "position", priority, channel, next_execution, waiting_since, created_at, attempts, crashes, iterations, last_iteration, format, subject, headers, overrides, token, lease_until, claimed_at, worker, error, successor, payload, key_values) overriding system value values
    ('3', '2', '2', '0', '3', '0', '0', '1518951480106', '1518951480106', '1518951480106', '1', '0', '0', NULL, '0', NULL, NULL, '{"lease":40.0}', '1bdc1073e68e19ad2c4e9bdeb0dd49b7', '1518951520106', '1518951480106', 'host/1', NULL, NULL, '{"n":2}', NULL),
    ('4', '2', '1', '0', '4', '0', '0', '1518951480106', '1518951480106', '1518951480106', '0', '0', '0', NULL, '0', NULL, NULL, '{"lease":40.0}', NULL, NULL, NULL, NULL, NULL, NULL, '{"n":3}', NULL),
    ('5', '2', '0', '0', NULL, '0', '0', '1518955080106', '1518951480106', '1518951480106', '0', '0', '0', NULL, '0', 'later', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"n":4}', NULL),
    ('6', '3', '2', '0', '5', '0', '0', '1518951480106', '1518951480106', '1518951480106', '1', '0', '0', NULL, '0', 's', NULL, '{"max_attempts":8,"lease":9.0}', '8bceddfe7cc32849d4d7d7fb50ed1393', '1518951489106', '1518951480106', 'host/1', NULL, E'{"payload":"{\\"timeout\\":2}","format":0,"subject":"s","priority":0,"due":1518951480106,"delay":null,"headers":null,"overrides":"{\\"lease\\":60.0}","key_values":null}', '{"timeout":1}', NULL),
    ('7', '3', '1', '0', '6', '0', '0', '1518951480106', '1518951480106', '1518951480106', '0', '0', '0', NULL, '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"timeout":3}', NULL);
delete from headrace.limit_version;
insert into headrace.limit_version (id, version) overriding system value values
    ('1', '0');
delete from headrace.lock_floor;
insert into headrace.lock_floor (id, fence) overriding system value values
    ('0', '0');
delete from headrace.proc;
insert into headrace.proc (id, name, topic, origin, cursor, created_at, status, last_claimed_at, turn, last_acked_at, last_claimed_range, last_acked_range, previous_claimed_range, attempts, max_attempts, lease, on_exhausted, last_error, skipped, isolate_to, last_acked_token, last_ack, ttl, expires_at, pipeline, definition) overriding system value values
    ('1', 'stopped', '1', '>', '0', '1518951480106', 'disabled', '0', '0', '0', '', '', '', '0', '10', NULL, 'disable', NULL, '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    ('2', 'patient', '1', '>', '0', '1518951480106', 'active', '1518951480106', '0', '0', '', '', '', '1', '7', '10000', 'continue', 'torn', '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    ('3', 'billing', '1', '>', '3', '1518951480106', 'active', '1518951480106', '0', '1518951480106', '1518951480106-3..1518951480106-5', '1518951480106-0..1518951480106-2', '1518951480106-0..1518951480106-2', '0', '1', '2500', 'dead_letter', NULL, '[]', NULL, '1a5f407e917ce5c36b763caa2c4cb794', '[null,{"range":"1518951480106-0..1518951480106-2","committed":null}]', NULL, NULL, NULL, NULL);
delete from headrace.proc_claim;
insert into headrace.proc_claim (proc, token, first_seq, last_seq, deadline) overriding system value values
    ('3', 'e91abe2c4918d21d61626c645df32915', '3', '5', '1518951482606');
delete from headrace.queue;
insert into headrace.queue (id, name, settings, version, created_at, is_live, is_paused, paused_by, frozen_until, has_channels, selections, limit_version, bound_version, counted, checked, max_used) overriding system value values
    ('1', 'plain', '{"discipline":"priority","lease":300.0,"max_attempts":5,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"chunk":1,"concurrency":1,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"skip","keep_superseded":null,"keep":"none","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}', '1', '1518951480106', 'true', 'false', NULL, NULL, 'false', '0', '0', '0', '{}', '{}', '{}'),
    ('2', 'mail', '{"discipline":"priority","lease":300.0,"max_attempts":5,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"chunk":3,"concurrency":4,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"next","keep_superseded":null,"keep":"all","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}', '1', '1518951480106', 'true', 'false', NULL, NULL, 'false', '0', '0', '0', '{}', '{}', '{}'),
    ('3', 'hasty', '{"discipline":"priority","lease":77.0,"max_attempts":2,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"chunk":3,"concurrency":4,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"skip","keep_superseded":null,"keep":"none","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}', '1', '1518951480106', 'true', 'false', NULL, NULL, 'false', '0', '0', '0', '{}', '{}', '{}');
delete from headrace.queue_default;
insert into headrace.queue_default (id, settings) overriding system value values
    ('1', '{"discipline":"priority","lease":77.0,"max_attempts":2,"max_crashes":3,"reject_delay":null,"backoff":{"first":1.0,"factor":2.0,"longest":3600.0,"jitter":0.2},"reschedule_delay":0.0,"retry_position":null,"chunk":3,"concurrency":4,"unique":"live","unique_window":86400.0,"unique_content":false,"while_active":"skip","keep_superseded":null,"keep":"none","keep_dead":null,"dead_to":[],"errors":true,"errors_retention":86400.0,"metrics":true,"metrics_retention":604800.0,"log_level":"error","serial":false,"max_items":-1,"max_channel_items":-1}');
delete from headrace.tally;
insert into headrace.tally (queue, id, at, ids, planned, pending, active, completed, dead, entered, picked, processed, rescheduled, rejected, dropped, orphaned, errors) overriding system value values
    ('2', '01a1f069-595c-7000-8f3f-e88060c031c5', '1518951480106', '1234', '0', '4', '0', '0', '0', '4', '0', '0', '0', '0', '0', '0', '0'),
    ('2', '01a1f069-595d-7000-854f-943b12ce8653', '1518951480106', '5later', '1', '0', '0', '0', '0', '1', '0', '0', '0', '0', '0', '0', '0'),
    ('2', NULL, NULL, NULL, '0', '-3', '3', '0', '0', '0', '3', '0', '0', '0', '0', '0', '0'),
    ('2', NULL, NULL, NULL, '0', '0', '-1', '0', '1', '0', '0', '1', '0', '0', '0', '0', '1'),
    ('2', NULL, NULL, NULL, '0', '0', '-1', '1', '0', '0', '0', '1', '0', '0', '0', '0', '0'),
    ('3', '01a1f069-596d-7000-8544-6c4a5b33b682', '1518951480106', '7', '0', '1', '0', '0', '0', '1', '0', '0', '0', '0', '0', '0', '0'),
    ('3', NULL, NULL, NULL, '0', '-1', '1', '0', '0', '0', '1', '0', '0', '0', '0', '0', '0'),
    ('3', NULL, NULL, NULL, '0', '1', '0', '0', '0', '1', '0', '0', '0', '0', '0', '0', '0');
delete from headrace.topic;
insert into headrace.topic (id, name, next_seq, first_seq, last_ts, min_age, max_age) overriding system value values
    ('1', 'orders', '11', '0', '1518951480106', NULL, NULL),
    ('2', 'billing-dead', '1', '0', '1518951480106', NULL, NULL);
select setval('headrace.error_id_seq', 1);
select setval('headrace.item_id_seq', 7);
select setval('headrace.proc_id_seq', 3);
select setval('headrace.queue_id_seq', 3);
select setval('headrace.topic_id_seq', 2);
select setval('headrace.turn', 6);
reset session_replication_role;
