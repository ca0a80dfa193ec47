"""What the parts of a store over SQL share, and how they reach each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from headrace.contract.items import (
    ClaimRequest,
    Outcome,
    PushCall,
)
from headrace.contract.op import Fast, Steps
from headrace.contract.values import CommitCall, Finding
from headrace.drivers.sql_common.admin import SqlAdmin
from headrace.drivers.sql_common.counters import SqlCounters
from headrace.drivers.sql_common.idempotency import CommitKeys
from headrace.drivers.sql_common.limits import SqlLimits
from headrace.drivers.sql_common.limits.rules import LimitRules
from headrace.drivers.sql_common.limits.usage import RuleUsage
from headrace.drivers.sql_common.locks import SqlLocks
from headrace.drivers.sql_common.pipelines import SqlPipelines
from headrace.drivers.sql_common.procs import SqlProcs
from headrace.drivers.sql_common.queues import SqlQueues
from headrace.drivers.sql_common.queues.candidates import ClaimCandidates
from headrace.drivers.sql_common.queues.channels import SqlChannels
from headrace.drivers.sql_common.queues.claim import QueueClaims
from headrace.drivers.sql_common.queues.dead_letters import QueueDeadLetters
from headrace.drivers.sql_common.queues.item_admin import ItemAdmin
from headrace.drivers.sql_common.queues.lifecycle import QueueLifecycle
from headrace.drivers.sql_common.queues.presence import Presence
from headrace.drivers.sql_common.queues.push import PushKeys, QueuePush
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.queues.scan_hints import ScanHints
from headrace.drivers.sql_common.queues.selections import QueueSelections
from headrace.drivers.sql_common.queues.settle import QueueSettlements
from headrace.drivers.sql_common.queues.stats import QueueCounters
from headrace.drivers.sql_common.queues.storage import QueueStorage
from headrace.drivers.sql_common.schedules import SqlSchedules
from headrace.drivers.sql_common.statements import Statement, Statements
from headrace.drivers.sql_common.tokens import SqlTokens
from headrace.drivers.sql_common.topics import SqlTopics
from headrace.model.limits.limit_set import LimitSet


class DialectTraits(NamedTuple):
    """How one database, or a transaction in it, differs from the others.

    ``numbers_at_commit``     records are stored without numbers; a trigger numbers them at COMMIT.
    ``repeats_commits``       a commit in one statement may be sent again when its answer is lost.
    ``retires_channels``      a channel that becomes empty leaves the turns in the same operation.
                              That locks its row, so a transaction that may be long does not do it.
    ``parks_channels``        channels that wait for capacity are parked by the counter they wait
                              for. That is simple where there is one writer at a time.
    ``sorts_channels``        channels are stored by the registered selections they belong to.
    ``claims_outlive_crash``  a worker may still work on a claim that a crash of the database lost.
    ``caches_limits``         the rules are cached between operations. A transaction that may be
                              rolled back must not cache the rules that it has read.
    ``has_commit_markers``    transactions write marker rows, by which the outcome of a COMMIT
                              whose answer was lost is resolved.
    """

    numbers_at_commit: bool = False
    repeats_commits: bool = False
    retires_channels: bool = True
    parks_channels: bool = False
    sorts_channels: bool = False
    claims_outlive_crash: bool = True
    caches_limits: bool = True
    has_commit_markers: bool = False


class QueueLock(NamedTuple):
    """How an operation enters a queue, so that the queue's settings do not change before it ends.

    ``enter`` is sent before the queue is read. ``close`` waits until all operations that have
    entered the queue have ended. A database with one writer at a time needs neither.
    """

    enter: Callable[[Statements, str], Statement]
    close: Callable[[Statements, QueueRow], Statement]


def _no_fast_path(*args: object) -> None:
    """The driver has no fast body for this operation: the general body runs."""


class FastPaths(NamedTuple):
    """For each operation, a function that returns its fast body for these arguments, or None."""

    commit: Callable[[Sequence[CommitCall]], Fast | None] = _no_fast_path
    proc_claim: Callable[[str, str, int, int], Fast | None] = _no_fast_path
    push: Callable[[Sequence[PushCall]], Fast | None] = _no_fast_path
    claim: Callable[[ClaimRequest], Fast | None] = _no_fast_path
    settle: Callable[[str, Sequence[Outcome]], Fast | None] = _no_fast_path


class SqlContext:
    """Statements, clock, caches and parts of one store, or of one transaction in it.

    Each part is made when it is first used: most transactions need one or two.
    """

    def __init__(
        self,
        sql: Statements,
        clock: Callable[[], int | None],
        traits: DialectTraits,
        *,
        fastpath: FastPaths | None = None,
        queue_lock: QueueLock | None = None,
        scan_hints: ScanHints | None = None,
        examine: Callable[[bool], Steps[list[Finding]]] | None = None,
    ) -> None:
        self.sql = sql
        self.clock = clock
        self.traits = traits
        self.fastpath = fastpath or FastPaths()
        self.queue_lock = queue_lock
        self.scan_hints = scan_hints
        self._examine = examine
        self.commit_keys = CommitKeys(sql)
        self.push_keys = PushKeys(sql)
        # Queues with rates, as they were last read, where a transaction that requires a flush in its
        # middle has to be begun again: claims on them are flushed from the beginning.
        self.rated_queues: set[str] = set()
        # The last row that each reader has read of a topic: id and body.
        self.last_rows: dict[str, tuple[str, str]] = {}
        # All rules as they were last read.
        self.cached_limits: LimitSet | None = None

    def examine(self, deep: bool) -> Steps[list[Finding]]:
        """Diagnose the database itself: a store can, a transaction cannot."""
        assert self._examine is not None
        return self._examine(deep)

    @cached_property
    def topics(self) -> SqlTopics:
        return SqlTopics(self)

    @cached_property
    def procs(self) -> SqlProcs:
        return SqlProcs(self)

    @cached_property
    def queues(self) -> SqlQueues:
        return SqlQueues(self)

    @cached_property
    def channels(self) -> SqlChannels:
        return SqlChannels(self)

    @cached_property
    def limits(self) -> SqlLimits:
        return SqlLimits(self)

    @cached_property
    def locks(self) -> SqlLocks:
        return SqlLocks(self)

    @cached_property
    def counters(self) -> SqlCounters:
        return SqlCounters(self)

    @cached_property
    def pipelines(self) -> SqlPipelines:
        return SqlPipelines(self)

    @cached_property
    def tokens(self) -> SqlTokens:
        return SqlTokens(self)

    @cached_property
    def schedules(self) -> SqlSchedules:
        return SqlSchedules(self)

    @cached_property
    def admin(self) -> SqlAdmin:
        return SqlAdmin(self)

    @cached_property
    def storage(self) -> QueueStorage:
        return QueueStorage(self)

    @cached_property
    def pushes(self) -> QueuePush:
        return QueuePush(self)

    @cached_property
    def claims(self) -> QueueClaims:
        return QueueClaims(self)

    @cached_property
    def settlements(self) -> QueueSettlements:
        return QueueSettlements(self)

    @cached_property
    def candidates(self) -> ClaimCandidates:
        return ClaimCandidates(self)

    @cached_property
    def selections(self) -> QueueSelections:
        return QueueSelections(self)

    @cached_property
    def lifecycle(self) -> QueueLifecycle:
        return QueueLifecycle(self)

    @cached_property
    def stats(self) -> QueueCounters:
        return QueueCounters(self)

    @cached_property
    def presence(self) -> Presence:
        return Presence(self)

    @cached_property
    def dead_letters(self) -> QueueDeadLetters:
        return QueueDeadLetters(self)

    @cached_property
    def item_admin(self) -> ItemAdmin:
        return ItemAdmin(self)

    @cached_property
    def limit_rules(self) -> LimitRules:
        return LimitRules(self)

    @cached_property
    def limit_usage(self) -> RuleUsage:
        return RuleUsage(self)
