-- Statements on the gate of a queue: who works on it, and who changes how it works.

-- name: enter_queue
-- See to it that a queue's discipline and counting stay as they are until the transaction ends.
select headrace.enter_queue(id) as entered from headrace.queue where name = :name;

-- name: close_queue
-- Wait until nobody works on a queue, and keep everybody out until the transaction ends.
select headrace.close_queue(:queue) as closed;
