-- Statements on the lock of a queue: shared by transactions on its items, exclusive to change it.

-- name: lock_queue_shared
-- Lock a queue, shared: its discipline and counting stay as they are until the transaction ends.
select headrace.lock_queue_shared(id) as entered from headrace.queue where name = :name;

-- name: lock_queue_exclusive
-- Lock a queue exclusively until the transaction ends.
select headrace.lock_queue_exclusive(:queue) as closed;
