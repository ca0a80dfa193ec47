-- Documents to push as rows. They come column by column, divided by U+001E, with U+0015 for null. A column
-- that ends before the others, or is null, continues with nulls; numbers that are null are 0. channel_number
-- is the number of the document's channel among those of the push. n is the order.
create function headrace.document_rows(
    channel_numbers text, ranks text, payloads text, formats text, subjects text, priorities text,
    dues text, delays text, headerses text, overrideses text, moment bigint
) returns table (
    channel_number bigint, rank integer, payload text, format smallint, subject text, priority integer,
    due bigint, headers text, overrides text, n bigint
) language sql stable as $$
    select r.channel_number::bigint, coalesce(r.rank::integer, 0), coalesce(r.payload, ''),
           coalesce(r.format::smallint, 0::smallint), r.subject,
           coalesce(r.priority::integer, 0),
           coalesce(r.at::bigint, moment + coalesce(r.delay::bigint, 0)), r.headers, r.overrides,
           r.n
    from rows from (
        string_to_table(channel_numbers, E'\x1e', E'\x15'),
        string_to_table(ranks, E'\x1e', E'\x15'),
        string_to_table(payloads, E'\x1e', E'\x15'),
        string_to_table(formats, E'\x1e', E'\x15'),
        string_to_table(subjects, E'\x1e', E'\x15'),
        string_to_table(priorities, E'\x1e', E'\x15'),
        string_to_table(dues, E'\x1e', E'\x15'),
        string_to_table(delays, E'\x1e', E'\x15'),
        string_to_table(headerses, E'\x1e', E'\x15'),
        string_to_table(overrideses, E'\x1e', E'\x15')
    ) with ordinality as r (
        channel_number, rank, payload, format, subject, priority, at, delay, headers, overrides, n
    )
$$;
