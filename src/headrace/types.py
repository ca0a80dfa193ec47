"""Values, options and reports of the public API, for annotations."""

from headrace.client._sync.dead_letters import DeadLetters
from headrace.client._sync.follower import Follower
from headrace.client._sync.replay import Replay
from headrace.client.status import Status
from headrace.client.workflows.settings_update import UpdateReport
from headrace.contract.items import (
    ClientInfo,
    DeadGroup,
    LoggedError,
    MetricSample,
    Outcome,
    Settled,
)
from headrace.contract.sinks import SinkInfo
from headrace.contract.values import Capabilities, Finding
from headrace.core.channels import ChannelInfo
from headrace.core.counters import CounterInfo
from headrace.core.documents import ItemOptions
from headrace.core.limits import LimitTrial, LimitUsage
from headrace.core.locks import LockInfo
from headrace.core.presence import ClientsChange, WorkersChange
from headrace.core.pushes import DocumentResult, PushResult
from headrace.core.queue_changes import QueueChange
from headrace.core.queue_settings import QueueOptions
from headrace.core.requests.procs import AckResult
from headrace.core.requests.topics import Receipt
from headrace.core.schedules import ScheduleInfo, ScheduleOptions
from headrace.core.tokens import IssuedToken, SecretInfo, TokenInfo
from headrace.core.views import QueueReport, QueueStats, WorkerInfo
from headrace.core.why import Why
from headrace.model.failures import Failure
from headrace.model.limits.rules import LimitOverride, LimitRule
from headrace.model.maintenance import MaintenanceReport
from headrace.model.pipelines import PipelineInfo
from headrace.model.query.patterns import MatchQuery
from headrace.model.query.queries import Query
from headrace.model.query.selections import KeyQuery, Selection
from headrace.model.query.typed_values import Value
from headrace.model.queues.items import State
from headrace.model.queues.settings import QueueInfo, QueueSettings
from headrace.model.schedules.schedule import Firing, Skipped
from headrace.model.times import Duration, Moment
from headrace.model.topics.procs import Lag, ProcInfo
from headrace.model.topics.records import TopicInfo
from headrace.worker.events import Done, Lost, StateChange, Trouble
from headrace.worker.tasks import Task
from headrace.worker.worker_options import WorkerOptions

__all__ = [
    "AckResult",
    "Capabilities",
    "ChannelInfo",
    "ClientInfo",
    "ClientsChange",
    "CounterInfo",
    "DeadGroup",
    "DeadLetters",
    "DocumentResult",
    "Done",
    "Duration",
    "Failure",
    "Finding",
    "Firing",
    "Follower",
    "IssuedToken",
    "ItemOptions",
    "KeyQuery",
    "Lag",
    "LimitOverride",
    "LimitRule",
    "LimitTrial",
    "LimitUsage",
    "LockInfo",
    "LoggedError",
    "Lost",
    "MaintenanceReport",
    "MatchQuery",
    "MetricSample",
    "Moment",
    "Outcome",
    "PipelineInfo",
    "ProcInfo",
    "PushResult",
    "Query",
    "QueueChange",
    "QueueInfo",
    "QueueOptions",
    "QueueReport",
    "QueueSettings",
    "QueueStats",
    "Receipt",
    "Replay",
    "ScheduleInfo",
    "ScheduleOptions",
    "SecretInfo",
    "Selection",
    "Settled",
    "SinkInfo",
    "Skipped",
    "State",
    "StateChange",
    "Status",
    "Task",
    "TokenInfo",
    "TopicInfo",
    "Trouble",
    "UpdateReport",
    "Value",
    "Why",
    "WorkerInfo",
    "WorkerOptions",
    "WorkersChange",
]
