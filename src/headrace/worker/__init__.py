"""Workers: claim items of a queue, call a handler, and settle what it says.

>>> worker = start_worker(hr, "mail", send)
>>> worker.stop()
"""

from typing import TYPE_CHECKING

from headrace.core.documents import Commit, Push
from headrace.worker._sync.worker import Worker
from headrace.worker.events import Done, Lost, StateChange, Trouble
from headrace.worker.items import Item
from headrace.worker.outcomes import (
    Complete,
    Drop,
    HandlerOutcome,
    Kill,
    Reject,
    Release,
    Reschedule,
    RetryAfter,
    RetryLater,
)
from headrace.worker.registry import aclose_workers, close_workers
from headrace.worker.retry import Retry
from headrace.worker.tasks import Task

if TYPE_CHECKING:
    from headrace.worker._async.worker import AsyncWorker
    from headrace.worker.app import App, current_context, current_item
    from headrace.worker.factory import start_worker
    from headrace.worker.handlers import Context
    from headrace.worker.lifespan import current_resources
    from headrace.worker.log_fields import TaskFields
    from headrace.worker.middleware import TaskCall
    from headrace.worker.time_limits import TaskTimeout
else:
    # Loaded when they are first used: programs that only push need no engine.
    from headrace.model.late_names import late

    __getattr__ = late(
        __name__,
        App="headrace.worker.app",
        AsyncWorker="headrace.worker._async.worker",
        Context="headrace.worker.handlers",
        TaskCall="headrace.worker.middleware",
        TaskFields="headrace.worker.log_fields",
        TaskTimeout="headrace.worker.time_limits",
        current_context="headrace.worker.app",
        current_item="headrace.worker.app",
        current_resources="headrace.worker.lifespan",
        start_worker="headrace.worker.factory",
    )

__all__ = [
    "App",
    "AsyncWorker",
    "Commit",
    "Complete",
    "Context",
    "Done",
    "Drop",
    "HandlerOutcome",
    "Item",
    "Kill",
    "Lost",
    "Push",
    "Reject",
    "Release",
    "Reschedule",
    "Retry",
    "RetryAfter",
    "RetryLater",
    "StateChange",
    "Task",
    "TaskCall",
    "TaskFields",
    "TaskTimeout",
    "Trouble",
    "Worker",
    "aclose_workers",
    "close_workers",
    "current_context",
    "current_item",
    "current_resources",
    "start_worker",
]
