"""Durable topics and procs in the database you already run.

>>> import headrace
>>> hr = headrace.connect("sqlite:///flow.db")
>>> hr.commit("numbers", {"n": 1})
'1518951480106-0'
"""

from headrace import errors, settings, telemetry
from headrace.api import AsyncHeadrace, Headrace, aconnect, connect
from headrace.client.calls import Acked
from headrace.client.clients import Status
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.contract.values import Capabilities, Finding
from headrace.default import (
    available_proc,
    close,
    commit,
    commit_many,
    diagnose,
    iterate,
    length,
    proc,
    procs,
    range,
    revrange,
    status,
    topic_info,
    topics,
    wait_for_procs,
)
from headrace.errors import HeadraceError
from headrace.model.procs import Lag, ProcInfo
from headrace.model.record import Record, TopicInfo

__version__ = "0.1.0"

__all__ = [
    "Acked",
    "AsyncClaim",
    "AsyncHeadrace",
    "AsyncProc",
    "Capabilities",
    "Claim",
    "Finding",
    "Headrace",
    "HeadraceError",
    "Lag",
    "Proc",
    "ProcInfo",
    "Record",
    "Status",
    "TopicInfo",
    "aconnect",
    "available_proc",
    "close",
    "commit",
    "commit_many",
    "connect",
    "diagnose",
    "errors",
    "iterate",
    "length",
    "proc",
    "procs",
    "range",
    "revrange",
    "settings",
    "status",
    "telemetry",
    "topic_info",
    "topics",
    "wait_for_procs",
]
