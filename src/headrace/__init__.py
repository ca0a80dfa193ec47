"""Durable topics, procs and queues in the database you already run.

>>> import headrace
>>> hr = headrace.connect("sqlite:///flow.db")
>>> hr.commit("numbers", {"n": 1})
'1518951480106-0'
"""

from headrace import errors, settings, telemetry
from headrace.api import AsyncHeadrace, Headrace, aconnect, connect
from headrace.client.calls import Acked, Receipt
from headrace.client.counters import AsyncSlots, Slots
from headrace.client.dead_letters import AsyncDeadLetters, DeadLetters
from headrace.client.following import AsyncFollower, AsyncReplay, Follower, Replay
from headrace.client.items import AsyncItem, Item
from headrace.client.kind_queues import AckQueue, AsyncAckQueue, AsyncSimpleQueue, SimpleQueue
from headrace.client.kinds import AckOpts, Message
from headrace.client.live import AsyncLive, Live
from headrace.client.locks import AsyncLock, Lock
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.client.queues import AsyncQueue, Queue
from headrace.client.running import Status
from headrace.client.sinks import AsyncSink, Sink
from headrace.client.topics import AsyncTopic, Topic
from headrace.client.transactions import AsyncTransaction, Transaction
from headrace.client.updating import UpdateReport
from headrace.contract.items import ClientRow, DeadGroup, LoggedError, Outcome, Sample, Settled
from headrace.contract.sinks import SinkInfo
from headrace.contract.values import Capabilities, Finding
from headrace.core.counters import CounterInfo
from headrace.core.documents import Commit, Doc, Push
from headrace.core.limits import LimitTrial, LimitUsage
from headrace.core.locks import LockInfo
from headrace.core.looking import QueueReport, QueueStats, WorkerInfo
from headrace.core.pushes import DocumentResult, PushResult
from headrace.core.where import where
from headrace.core.why import Why
from headrace.default import (
    ack_queue,
    acquire,
    available_proc,
    change_limit,
    clients,
    close,
    commit,
    commit_many,
    compute_stats,
    consolidate_stats,
    counters,
    create,
    create_limit,
    delete_limit,
    diagnose,
    drop,
    ids,
    info,
    iterate,
    keep,
    length,
    limit,
    limit_usage,
    limits,
    live,
    lock,
    locks,
    maintain,
    match_limits,
    override_limit,
    pause,
    proc,
    procs,
    push,
    push_many,
    queue,
    queue_defaults,
    queues,
    range,
    ref,
    register_worker,
    release_lock,
    resume,
    revrange,
    set_counter,
    set_limit,
    set_queue_defaults,
    settle,
    simple_queue,
    sink,
    sinks,
    stats,
    status,
    system_proc,
    system_procs,
    topic,
    topic_info,
    topics,
    transaction,
    try_limit,
    unique_ack_queue,
    unique_queue,
    update,
    upsert,
    upsert_many,
    using,
    wait_for_procs,
    workers,
)
from headrace.errors import HeadraceError
from headrace.model.collecting import MaintenanceReport
from headrace.model.failures import Failure
from headrace.model.items import State
from headrace.model.keyvalues import KeyValues
from headrace.model.limits import Override as LimitOverride
from headrace.model.limits import Rule as LimitRule
from headrace.model.patterns import MatchQuery
from headrace.model.pipelines import PipelineInfo
from headrace.model.procs import Lag, ProcInfo
from headrace.model.queries import Query
from headrace.model.queues import Backoff, QueueInfo, QueueSettings
from headrace.model.record import Record, TopicInfo
from headrace.model.selections import KeyQuery, Selection
from headrace.model.typed import ANY, Value, typed
from headrace.pipelines.handles import AsyncSystemProc, SystemProc

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "AckOpts",
    "AckQueue",
    "Acked",
    "AsyncAckQueue",
    "AsyncClaim",
    "AsyncDeadLetters",
    "AsyncFollower",
    "AsyncHeadrace",
    "AsyncItem",
    "AsyncLive",
    "AsyncLock",
    "AsyncProc",
    "AsyncQueue",
    "AsyncReplay",
    "AsyncSimpleQueue",
    "AsyncSink",
    "AsyncSlots",
    "AsyncSystemProc",
    "AsyncTopic",
    "AsyncTransaction",
    "Backoff",
    "Capabilities",
    "Claim",
    "ClientRow",
    "Commit",
    "CounterInfo",
    "DeadGroup",
    "DeadLetters",
    "Doc",
    "DocumentResult",
    "Failure",
    "Finding",
    "Follower",
    "Headrace",
    "HeadraceError",
    "Item",
    "KeyQuery",
    "KeyValues",
    "Lag",
    "LimitOverride",
    "LimitRule",
    "LimitTrial",
    "LimitUsage",
    "Live",
    "Lock",
    "LockInfo",
    "LoggedError",
    "MaintenanceReport",
    "MatchQuery",
    "Message",
    "Outcome",
    "PipelineInfo",
    "Proc",
    "ProcInfo",
    "Push",
    "PushResult",
    "Query",
    "Queue",
    "QueueInfo",
    "QueueReport",
    "QueueSettings",
    "QueueStats",
    "Receipt",
    "Record",
    "Replay",
    "Sample",
    "Selection",
    "Settled",
    "SimpleQueue",
    "Sink",
    "SinkInfo",
    "Slots",
    "State",
    "Status",
    "SystemProc",
    "Topic",
    "TopicInfo",
    "Transaction",
    "UpdateReport",
    "Value",
    "Why",
    "WorkerInfo",
    "ack_queue",
    "aconnect",
    "acquire",
    "available_proc",
    "change_limit",
    "clients",
    "close",
    "commit",
    "commit_many",
    "compute_stats",
    "connect",
    "consolidate_stats",
    "counters",
    "create",
    "create_limit",
    "delete_limit",
    "diagnose",
    "drop",
    "errors",
    "ids",
    "info",
    "iterate",
    "keep",
    "length",
    "limit",
    "limit_usage",
    "limits",
    "live",
    "lock",
    "locks",
    "maintain",
    "match_limits",
    "override_limit",
    "pause",
    "proc",
    "procs",
    "push",
    "push_many",
    "queue",
    "queue_defaults",
    "queues",
    "range",
    "ref",
    "register_worker",
    "release_lock",
    "resume",
    "revrange",
    "set_counter",
    "set_limit",
    "set_queue_defaults",
    "settings",
    "settle",
    "simple_queue",
    "sink",
    "sinks",
    "stats",
    "status",
    "system_proc",
    "system_procs",
    "telemetry",
    "topic",
    "topic_info",
    "topics",
    "transaction",
    "try_limit",
    "typed",
    "unique_ack_queue",
    "unique_queue",
    "update",
    "upsert",
    "upsert_many",
    "using",
    "wait_for_procs",
    "where",
    "workers",
]
