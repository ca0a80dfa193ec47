"""Workers: claim items of a queue, call a handler, and settle what it says.

>>> worker = register_worker(hr, "mail", send)
>>> worker.stop()
"""

from headrace.core.documents import Commit, Push
from headrace.worker.apps import App, current_context, current_item
from headrace.worker.events import Done, Lost, StateChange, Trouble
from headrace.worker.handlers import Context
from headrace.worker.items import Item
from headrace.worker.outcomes import (
    Complete,
    Drop,
    Kill,
    Outcome,
    Reject,
    Release,
    Reschedule,
    RetryAfter,
    RetryLater,
)
from headrace.worker.registering import aclose_workers, close_workers, register_worker
from headrace.worker.tasks import Task
from headrace.worker.workers import AsyncWorker, Worker

__all__ = [
    "App",
    "AsyncWorker",
    "Commit",
    "Complete",
    "Context",
    "Done",
    "Drop",
    "Item",
    "Kill",
    "Lost",
    "Outcome",
    "Push",
    "Reject",
    "Release",
    "Reschedule",
    "RetryAfter",
    "RetryLater",
    "StateChange",
    "Task",
    "Trouble",
    "Worker",
    "aclose_workers",
    "close_workers",
    "current_context",
    "current_item",
    "register_worker",
]
