"""Durable topics, procs and queues in the database you already run.

>>> import headrace
>>> hr = headrace.connect("sqlite:///flow.db")
>>> hr.commit("numbers", {"n": 1})
'1518951480106-0'
"""

from typing import TYPE_CHECKING, NoReturn

from headrace import errors, telemetry, types
from headrace._sync.headrace import Headrace, connect
from headrace.client._sync.counters import Slots
from headrace.client._sync.items import ClaimedItem
from headrace.client._sync.live import Live
from headrace.client._sync.locks import Lock
from headrace.client._sync.procs import Claim, Proc
from headrace.client._sync.queue import Queue
from headrace.client._sync.topics import Topic
from headrace.client._sync.transactions import Transaction
from headrace.client.items import Item
from headrace.core.documents import Commit, Doc, Push
from headrace.core.where import where
from headrace.errors import HeadraceError
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY, typed
from headrace.model.queues.settings import Backoff
from headrace.model.topics.records import Record
from headrace.pipelines._sync.pipeline import Pipeline
from headrace.worker._sync.worker import Worker
from headrace.worker.outcomes import (
    Complete,
    Drop,
    Kill,
    Reject,
    Release,
    Reschedule,
    RetryAfter,
    RetryLater,
)

if TYPE_CHECKING:
    from headrace import aio
    from headrace._async.headrace import AsyncHeadrace, aconnect
    from headrace.node.spawn import Node, spawn
    from headrace.worker.app import App
    from headrace.worker.handlers import Context
else:
    # Loaded when they are first used: async code, and what only workers and nodes need.
    from headrace.model.late_names import late

    def _refuse(package: str, name: str) -> NoReturn:
        from headrace.moved_names import where_is

        raise AttributeError(f"{package} has no {name!r}{where_is(name)}", name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    __getattr__ = late(
        __name__,
        _refuse,
        App="headrace.worker.app",
        AsyncHeadrace="headrace._async.headrace",
        Context="headrace.worker.handlers",
        Node="headrace.node.spawn",
        aconnect="headrace._async.headrace",
        aio="headrace.aio",
        spawn="headrace.node.spawn",
    )

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "App",
    "AsyncHeadrace",
    "Backoff",
    "Claim",
    "ClaimedItem",
    "Commit",
    "Complete",
    "Context",
    "Doc",
    "Drop",
    "Headrace",
    "HeadraceError",
    "Item",
    "KeyValues",
    "Kill",
    "Live",
    "Lock",
    "Node",
    "Pipeline",
    "Proc",
    "Push",
    "Queue",
    "Record",
    "Reject",
    "Release",
    "Reschedule",
    "RetryAfter",
    "RetryLater",
    "Slots",
    "Topic",
    "Transaction",
    "Worker",
    "aconnect",
    "aio",
    "connect",
    "errors",
    "spawn",
    "telemetry",
    "typed",
    "types",
    "where",
]
