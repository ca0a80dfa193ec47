"""gopq's queues in Python: ``NewSimpleQueue`` is ``simple_queue``, ``…Ctx`` is ``timeout=``.

>>> from headrace.compat import gopq
>>> queue = gopq.ack_queue("jobs.db", gopq.AckOpts(ack_timeout=30, max_retries=3))
>>> queue.enqueue(b"Process me")
>>> message = queue.dequeue()
>>> queue.ack(message.id)
"""

from headrace.compat._sync.gopq import ack_queue, simple_queue, unique_ack_queue, unique_queue
from headrace.compat._sync.gopq_queues import AcknowledgeableQueue, Queue
from headrace.compat.gopq_values import (
    ACK_DELETE,
    ACK_MARK,
    INFINITE_RETRIES,
    AckOpts,
    ErrDBLocked,
    ErrNoItemsWaiting,
    Msg,
)

__all__ = [
    "ACK_DELETE",
    "ACK_MARK",
    "INFINITE_RETRIES",
    "AckOpts",
    "AcknowledgeableQueue",
    "ErrDBLocked",
    "ErrNoItemsWaiting",
    "Msg",
    "Queue",
    "ack_queue",
    "simple_queue",
    "unique_ack_queue",
    "unique_queue",
]
