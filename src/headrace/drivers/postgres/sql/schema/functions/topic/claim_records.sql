-- Claim records for a proc in one statement, in the simple case: an active proc without a claim and
-- with nothing to skip. In all other cases it answers 'other' and has changed nothing; it returns no
-- row if there is no such proc. The body of the batch that the reader already has is left out. The
-- claim does not wait for a flush: a claim that a crash loses was never made.
create function headrace.claim_records(
    proc_name text, claim_token text, max_records bigint, max_bytes bigint, known text, moment bigint
) returns table (
    answer text, topic text, low bigint, high bigint, until bigint,
    id text, base_seq bigint, count integer, ts bigint, headers text, body text
) language plpgsql as $$
declare
    reader record;
    log record;
    line record;
    first_id text;
    last_id text;
begin
    select p.cursor, t.next_seq into reader
    from headrace.proc p join headrace.topic t on t.id = p.topic
    where p.name = proc_name and p.status = 'active';
    if found and reader.cursor >= reader.next_seq then
        answer := 'empty';
        return next;
        return;
    end if;
    select p.* into reader from headrace.proc p where p.name = proc_name for update;
    if not found then
        return;
    end if;
    -- Read when the proc is locked, in statements of their own: so they are not older than it.
    select t.* into log from headrace.topic t where t.id = reader.topic;
    if reader.status <> 'active' or reader.cursor is null
       or reader.skipped <> '[]' or reader.isolate_to is not null
       or reader.cursor < log.first_seq or reader.cursor >= log.next_seq
       or exists (select from headrace.proc_claim c where c.proc = reader.id) then
        answer := 'other';
        return next;
        return;
    end if;
    perform set_config('synchronous_commit', 'off', true);
    moment := coalesce(moment, headrace.clock());
    answer := 'claimed';
    topic := log.name;
    low := reader.cursor;
    high := least(low + max_records, log.next_seq) - 1;
    until := moment + reader.lease;
    for line in
        select b.id::text as id, b.base_seq, b.count, b.ts, b.headers, b.body
        from headrace.batch b
        where b.topic = log.id
          and b.base_seq >= (select max(f.base_seq) from headrace.batch f
                             where f.topic = log.id and f.base_seq <= low)
          and b.base_seq <= high
        order by b.base_seq
    loop
        first_id := coalesce(first_id, line.ts || '-' || low);
        last_id := line.ts || '-' || least(high, line.base_seq + line.count - 1);
        id := line.id;
        base_seq := line.base_seq;
        count := line.count;
        ts := line.ts;
        headers := line.headers;
        body := case when line.id = known then null else line.body end;
        return next;
        max_bytes := max_bytes - octet_length(line.body);
        exit when max_bytes <= 0;
    end loop;
    high := least(high, base_seq + count - 1);
    update headrace.proc p
    set cursor = low, last_claimed_at = moment,
        previous_claimed_range = p.last_claimed_range,
        last_claimed_range = first_id || '..' || last_id,
        expires_at = coalesce(moment + p.ttl, p.expires_at)
    where p.id = reader.id;
    insert into headrace.proc_claim (proc, token, first_seq, last_seq, deadline)
    values (reader.id, claim_token, low, high, until);
end
$$;
