-- What proves that a transaction was committed whose answer was lost.

-- Each connection has a row, and in it the number of its last transaction that was committed. The
-- server's own number proves nothing once the server has crashed: it may be given to another one.
-- Only the key has an index, and pages have room, so that changing a row stays within its page.
create table headrace.signature (
    connection  uuid primary key,
    transaction bigint not null,
    at          bigint not null
) with (fillfactor = 50);

-- Let this transaction find rows by keys, however small the tables are. The server keeps plans, and
-- those that are best for a table of a few rows read all of it; nothing makes it think again while
-- the table grows, until somebody analyses it. A plan is kept as it was made: a statement that is also
-- sent outside of transactions may have one that was made there. Nothing is said of joins: whoever
-- joins a list of rows with a table also says which keys these are.
create function headrace.plan_by_keys() returns text language sql as $$
    select set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true)
        || set_config('jit', 'off', true)
$$;
