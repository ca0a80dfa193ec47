-- The database's clock in milliseconds. Every statement that needs the time has it as a parameter,
-- so that tests can set it, and calls this function when the parameter is null.
create function headrace.clock() returns bigint
    language sql volatile parallel safe
    return (extract(epoch from clock_timestamp()) * 1000)::bigint;
