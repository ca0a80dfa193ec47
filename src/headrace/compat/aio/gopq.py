"""gopq's queues for async code: ``headrace.compat.gopq`` with ``await``."""

from headrace.compat._async.gopq import ack_queue, simple_queue, unique_ack_queue, unique_queue
from headrace.compat._async.gopq_queues import AsyncAcknowledgeableQueue as AcknowledgeableQueue
from headrace.compat._async.gopq_queues import AsyncQueue as Queue
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
