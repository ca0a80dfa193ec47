"""Durable topics and procs in the database you already run.

>>> import headrace
>>> hr = headrace.connect("sqlite:///flow.db")
>>> hr.commit("numbers", {"n": 1})
'1518951480106-0'
"""

from headrace import errors, settings, telemetry
from headrace.api import AsyncHeadrace, Headrace, aconnect, connect
from headrace.client.calls import Acked, Receipt
from headrace.client.live import AsyncLive, Live
from headrace.client.operations import Status
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.client.transactions import AsyncTransaction, Transaction
from headrace.contract.values import Capabilities, Finding
from headrace.default import (
    available_proc,
    close,
    commit,
    commit_many,
    diagnose,
    ids,
    iterate,
    keep,
    length,
    live,
    maintain,
    proc,
    procs,
    range,
    revrange,
    status,
    topic_info,
    topics,
    transaction,
    using,
    wait_for_procs,
)
from headrace.errors import HeadraceError
from headrace.model.collecting import MaintenanceReport
from headrace.model.procs import Lag, ProcInfo
from headrace.model.record import Record, TopicInfo

__version__ = "0.1.0"

__all__ = [
    "Acked",
    "AsyncClaim",
    "AsyncHeadrace",
    "AsyncLive",
    "AsyncProc",
    "AsyncTransaction",
    "Capabilities",
    "Claim",
    "Finding",
    "Headrace",
    "HeadraceError",
    "Lag",
    "Live",
    "MaintenanceReport",
    "Proc",
    "ProcInfo",
    "Receipt",
    "Record",
    "Status",
    "TopicInfo",
    "Transaction",
    "aconnect",
    "available_proc",
    "close",
    "commit",
    "commit_many",
    "connect",
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
    "range",
    "revrange",
    "settings",
    "status",
    "telemetry",
    "topic_info",
    "topics",
    "transaction",
    "using",
    "wait_for_procs",
]
