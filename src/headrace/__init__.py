"""Durable topics, procs and queues in the database you already run.

>>> import headrace
>>> hr = headrace.connect("sqlite:///flow.db")
>>> hr.commit("numbers", {"n": 1})
'1518951480106-0'
"""

from headrace import errors, settings, telemetry
from headrace.api import AsyncHeadrace, Headrace, aconnect, connect
from headrace.client.calls import Acked, Receipt
from headrace.client.items import AsyncItem, Item
from headrace.client.live import AsyncLive, Live
from headrace.client.operations import Status
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.client.queues import AsyncQueue, Queue
from headrace.client.transactions import AsyncTransaction, Transaction
from headrace.contract.items import Outcome, Settled
from headrace.contract.values import Capabilities, Finding
from headrace.core.documents import Commit, Doc, Push
from headrace.core.pushes import DocumentResult, PushResult
from headrace.default import (
    available_proc,
    close,
    commit,
    commit_many,
    create,
    diagnose,
    ids,
    iterate,
    keep,
    length,
    live,
    maintain,
    proc,
    procs,
    push,
    push_many,
    queue,
    range,
    ref,
    revrange,
    settle,
    status,
    topic_info,
    topics,
    transaction,
    upsert,
    upsert_many,
    using,
    wait_for_procs,
)
from headrace.errors import HeadraceError
from headrace.model.collecting import MaintenanceReport
from headrace.model.failures import Failure
from headrace.model.items import State
from headrace.model.procs import Lag, ProcInfo
from headrace.model.queues import Backoff, QueueInfo, QueueSettings
from headrace.model.record import Record, TopicInfo

__version__ = "0.1.0"

__all__ = [
    "Acked",
    "AsyncClaim",
    "AsyncHeadrace",
    "AsyncItem",
    "AsyncLive",
    "AsyncProc",
    "AsyncQueue",
    "AsyncTransaction",
    "Backoff",
    "Capabilities",
    "Claim",
    "Commit",
    "Doc",
    "DocumentResult",
    "Failure",
    "Finding",
    "Headrace",
    "HeadraceError",
    "Item",
    "Lag",
    "Live",
    "MaintenanceReport",
    "Outcome",
    "Proc",
    "ProcInfo",
    "Push",
    "PushResult",
    "Queue",
    "QueueInfo",
    "QueueSettings",
    "Receipt",
    "Record",
    "Settled",
    "State",
    "Status",
    "TopicInfo",
    "Transaction",
    "aconnect",
    "available_proc",
    "close",
    "commit",
    "commit_many",
    "connect",
    "create",
    "diagnose",
    "errors",
    "ids",
    "iterate",
    "keep",
    "length",
    "live",
    "maintain",
    "proc",
    "procs",
    "push",
    "push_many",
    "queue",
    "range",
    "ref",
    "revrange",
    "settings",
    "settle",
    "status",
    "telemetry",
    "topic_info",
    "topics",
    "transaction",
    "upsert",
    "upsert_many",
    "using",
    "wait_for_procs",
]
