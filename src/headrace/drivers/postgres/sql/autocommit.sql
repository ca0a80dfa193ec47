-- Statements that are a whole transaction. Claims have a column named answer (a ClaimAnswer), and
-- commits, pushes and completions one named done (what was stored). Fault tests recognise the answers
-- that they lose by these names.

-- name: append
-- Number one row and store it, or answer nothing if the topic is not there.
select base_seq as done, ts, now
from headrace.append(:topic, :id::uuid, :count, :body, :headers,
                     :continues, :now::bigint, :channel);

-- name: append_keyed
-- The same for calls with keys; answers the keys in use if there are any.
select base_seq as done, ts, now, used
from headrace.append_keyed(:calls::json, :topic, :id::uuid, :count, :body, :headers,
                           :now::bigint, :channel);

-- name: find_batches
-- Rows that a commit stored whose answer was lost, by their ids.
select base_seq as done, ts from headrace.batch where id = any(:ids::uuid[]) order by id;

-- name: claim_records
-- Claim records for a proc in the simple case; the batches that contain them.
select answer, topic, low, high, until, id, base_seq, count, ts, headers, body
from headrace.claim_records(:proc, :token, :max_records, :max_bytes, :known, :now::bigint);

-- name: push_items
-- Push new documents; answers nothing if the queue is not as it was known.
select done, is_under_way
from headrace.push_items(
    :queue, :version, :receipt::uuid, :sign, :now::bigint, :channel,
    :rank, :payload, :format, :subject, :priority, :due, :delay, :headers, :overrides);

-- name: push_payloads
-- Push new documents that are mere payloads; answers nothing if the queue is not as it was known.
select done, is_under_way
from headrace.push_payloads(
    :queue, :version, :receipt::uuid, :sign, :now::bigint, :channel, :payload);

-- name: push_to_channels
-- Push new documents to channels; answers nothing if the queue is not as it was known.
select done, is_under_way
from headrace.push_to_channels(
    :queue, :version, :receipt::uuid, :sign, :now::bigint, :channel, :names, :channel_numbers,
    :rank, :payload, :format, :subject, :priority, :due, :delay, :headers, :overrides);

-- name: push_item
-- Push one new document; answers nothing if the queue is not as it was known.
select done, is_under_way
from headrace.push_item(
    :queue, :version, :receipt::uuid, :sign, :now::bigint, :channel,
    :rank, :payload, :format::smallint, :subject, :priority, :due::bigint, :delay::bigint,
    :headers, :overrides);

-- name: push_keyed
-- Push new documents of calls with keys; answers the keys in use if there are any, and nothing if the
-- queue is not as it was known.
select done, is_under_way, used
from headrace.push_keyed(
    :calls::json, :queue, :version, :receipt::uuid, :sign, :now::bigint, :channel, :names,
    :channel_numbers, :rank, :payload, :format, :subject, :priority, :due, :delay, :headers,
    :overrides);

-- name: claim_items
-- Claim items; answers nothing if there is no such queue.
select answer, next_due, clock, items
from headrace.claim_items(
    :queue, :version, :token, :count, :lease, :worker, :keeps_counts, :sign,
    :floor_rank::integer, :floor_position::bigint, :ignores_expired, :now::bigint, :rule_version);

-- name: claim_in_turn
-- Claim items of ready channels in turn; answers nothing if there is no such queue.
select answer, next_due, clock, line, first_turn, items, counted
from headrace.claim_in_turn(
    :queue, :version, :token, :count, :lease, :worker, :keeps_counts, :sign, :quantum,
    :is_strict, :selection::integer, string_to_array(:channels, ',')::integer[], :are_all,
    :ignores_expired, :now::bigint, :rule_version, :is_tight, :floor_turn::bigint);

-- name: claim_in_line
-- Claim the first items in line, whatever their channels; answers nothing if there is no such queue.
select answer, next_due, clock, line, items, counted
from headrace.claim_in_line(
    :queue, :version, :token, :count, :lease, :worker, :keeps_counts, :sign, :ignores_expired,
    :now::bigint, :rule_version, :is_tight);

-- name: scan_channels
-- The channels of all lanes whose turn is next, in three texts: many rows are slow to fetch.
select string_agg(r.channel::text, ',' order by r.turn) as channels,
       string_agg(r.turn::text, ',' order by r.turn) as turns,
       string_agg((select c.key_values from headrace.channel c where c.id = r.channel),
                  E'\x1e' order by r.turn) as names
from (
    select n.channel, n.turn
    from (
        select 0 as id union all select k.id from headrace.lane k where k.queue = :queue
    ) l
    cross join lateral (
        select f.channel, f.turn from headrace.ready_channel f
        where f.queue = :queue and f.lane = l.id and f.turn > :after
        order by f.turn limit :limit
    ) n
    order by n.turn limit :limit
) r;

-- name: complete_items
-- Complete items that were claimed with these tokens and have no successor; answers nothing if the queue
-- is not as it was known.
select done
from headrace.complete_items(
    :queue, :version, string_to_array(:tokens, E'\x1e'), string_to_array(:ids, ',')::bigint[],
    :keeps_counts, :receipt::uuid) as done;

-- name: complete_counted
-- The same where limit rules count running items; also names queues whose waiters were notified.
select done, woken
from headrace.complete_counted(
    :queue, :version, string_to_array(:tokens, E'\x1e'), string_to_array(:ids, ',')::bigint[],
    :keeps_counts, :receipt::uuid, :channel,
    :counted_by::integer, string_to_array(:counters, ',')::integer[],
    string_to_array(:numbers, ',')::bigint[]);

-- name: bind_channels
-- Store what rules say about channels; false if the rules have changed.
select headrace.bind_channels(
    :queue, :rule_version, string_to_array(:channels, ',')::integer[],
    string_to_array(:entries, ',')::integer[], :bounds::json) as is_bound;

-- name: flush
-- Wait until everything that was committed before is flushed.
select set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'),
                  true) as waits,
       pg_logical_emit_message(true, 'headrace', '') as flushed;

-- name: confirm_claims
-- The same, and which of some claims the server still has: one that crashed meanwhile may have lost
-- them. Each is named by its token and one of its items.
select (select string_agg(c.token, E'\x1e')
        from unnest(string_to_array(:queues, ',')::integer[], string_to_array(:items, ',')::bigint[],
                    string_to_array(:tokens, E'\x1e')) as c (queue, item, token)
        where c.token = headrace.token_of(c.queue, c.item)) as confirmed,
       set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'),
                  true) as waits,
       pg_logical_emit_message(true, 'headrace', '') as flushed;

-- name: find_receipt
-- What a statement did whose answer was lost.
select ids from headrace.tally where id = :receipt::uuid;

-- name: reserve_receipt
-- Make sure that a statement whose answer was lost never takes effect, unless it already has.
insert into headrace.tally (queue, id, at, ids)
values (:queue, :receipt::uuid, coalesce(:now::bigint, headrace.clock()), 'elsewhere')
on conflict (id) where id is not null do nothing;

-- name: subject_items
-- The live items of subjects.
select id, subject from headrace.subject_items(:queue, :subjects::text[]);
