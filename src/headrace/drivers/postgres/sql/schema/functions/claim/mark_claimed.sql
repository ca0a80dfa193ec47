-- Mark items as claimed that this transaction has locked, given by their ctid. The result is one text,
-- because many rows are slow to fetch: items divided by U+001E, the fields of each by U+001F. Most
-- items are new and have no more than a payload and perhaps a channel: these have few fields.
create function headrace.mark_claimed(
    spots tid[], claim_token text, claimer text, moment bigint, lease bigint
) returns text language plpgsql as $$
declare
    marked text;
begin
    if cardinality(spots) = 0 then
        return null;
    end if;
    with h as (
        update headrace.item i
        set state = 2, attempts = i.attempts + 1, token = claim_token, worker = claimer,
            claimed_at = moment,
            lease_until = moment
                + coalesce(((i.overrides::json ->> 'lease')::numeric * 1000)::bigint, lease)
        where i.ctid = any(spots)
        returning case
            when i.attempts = 1 and i.next_execution = i.created_at
                 and i.waiting_since = i.created_at and i.priority = 0 and i.format = 0
                 and i.crashes = 0 and i.iterations = 0 and i.last_iteration is null
                 and i.subject is null and i.headers is null and i.overrides is null
                 and i.error is null and i.successor is null
            then concat_ws(E'\x1f', i.id, i.position, i.created_at, i.payload, i.key_values)
            else concat_ws(
                E'\x1f', i.id, i.position, i.created_at, i.payload, coalesce(i.key_values, E'\x15'),
                i.format, coalesce(i.subject, E'\x15'), i.priority, i.next_execution,
                i.waiting_since, i.attempts, i.crashes, i.iterations,
                coalesce(i.last_iteration::text, E'\x15'), coalesce(i.headers, E'\x15'),
                coalesce(i.overrides, E'\x15'), i.lease_until, coalesce(i.error, E'\x15'),
                coalesce(i.successor, E'\x15'))
            end as line
    )
    select string_agg(h.line, E'\x1e') into marked from h;
    return marked;
end
$$;
