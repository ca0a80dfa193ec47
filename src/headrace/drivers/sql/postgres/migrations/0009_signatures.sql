-- What proves that a transaction was committed whose answer was lost.

-- Each connection has a row, and in it the number of its last transaction that was committed. The
-- server's own number proves nothing once the server has crashed: it may be given to another one.
-- Only the key has an index, and pages have room, so that changing a row stays within its page.
create table headrace.signature (
    connection  uuid primary key,
    transaction bigint not null,
    at          bigint not null
) with (fillfactor = 50);
