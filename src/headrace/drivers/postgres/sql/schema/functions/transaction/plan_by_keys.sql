-- Make this transaction find rows by keys, however small the tables are. The server keeps plans, and the
-- best plan for a table of a few rows reads all of it; the server does not plan again while the table
-- grows, until it is analysed. A plan is kept as it was made: a statement that is also sent outside of
-- transactions may have one that was made there. Joins are not affected: a statement that joins a list
-- of rows with a table also says which keys these are.
create function headrace.plan_by_keys() returns text language sql as $$
    select set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true)
        || set_config('jit', 'off', true)
$$;
