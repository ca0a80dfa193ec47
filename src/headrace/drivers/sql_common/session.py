"""Operations inside a transaction that spans several of them.

The transaction is ours (``transaction``) or the user's own (``using``). A session retries nothing
and commits nothing. Each operation has a savepoint, so that an operation that fails leaves nothing
written and the transaction goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from headrace.contract.op import Op
from headrace.contract.values import Capabilities
from headrace.drivers.runner import Probe, Runner, Work
from headrace.drivers.sql_common import sqlalchemy_adapter
from headrace.drivers.sql_common.context import DialectTraits, QueueLock, SqlContext
from headrace.drivers.sql_common.joined_transaction import JoinedTransaction
from headrace.drivers.sql_common.limits import SqlLimits
from headrace.drivers.sql_common.locks import SqlLocks
from headrace.drivers.sql_common.procs import SqlProcs
from headrace.drivers.sql_common.queues import SqlQueues
from headrace.drivers.sql_common.queues.channels import SqlChannels
from headrace.drivers.sql_common.statements import (
    Many,
    NoReply,
    Notify,
    RequireFlush,
    Separate,
    Statement,
    Statements,
)
from headrace.drivers.sql_common.topics import SqlTopics
from headrace.errors import HeadraceError, InvalidOption, StoreError

T = TypeVar("T")

_SAVE = Statement("savepoint", "SAVEPOINT headrace", {})
_RELEASE = Statement("release", "RELEASE SAVEPOINT headrace", {})
_UNDO = Statement("undo", "ROLLBACK TO SAVEPOINT headrace", {})


class SqlStore(Protocol):
    """What a session needs of the store that it belongs to."""

    name: str
    capabilities: Capabilities
    probe: Probe
    sql: Statements

    @property
    def clock(self) -> Callable[[], int | None]: ...


class SessionSend(msgspec.Struct, frozen=True):
    """Send statements on the transaction's connection; the answer is their rows."""

    statements: tuple[Statement | Many, ...]


class SqlSession(Runner):
    """The parts of a store over one open transaction. See ``contract.store.Session``."""

    def __init__(
        self,
        store: SqlStore,
        traits: DialectTraits,
        queue_lock: QueueLock | None,
        joined: JoinedTransaction | None = None,
    ) -> None:
        super().__init__(patience=0)
        self.name = store.name
        self.capabilities = store.capabilities
        self.probe = store.probe
        # The transaction may read what is never committed, so it does not share the store's caches.
        traits = traits._replace(caches_limits=False)
        self.context = SqlContext(store.sql, store.clock, traits, queue_lock=queue_lock)
        # Topics that have new records once the transaction is committed.
        self.announced: set[str] = set()
        # Whether an operation failed and could not be undone alone.
        self._is_broken = False
        # The user's transaction; None in one of our own.
        self.joined = joined

    @property
    def topics(self) -> SqlTopics:
        return self.context.topics

    @property
    def procs(self) -> SqlProcs:
        return self.context.procs

    @property
    def queues(self) -> SqlQueues:
        return self.context.queues

    @property
    def channels(self) -> SqlChannels:
        return self.context.channels

    @property
    def limits(self) -> SqlLimits:
        return self.context.limits

    @property
    def locks(self) -> SqlLocks:
        return self.context.locks

    def check_whole(self) -> None:
        """Raise if the transaction has lost its writes: there is nothing to commit then."""
        if self._is_broken:
            raise StoreError(
                "a statement of this transaction failed in a way that ended it: all of it is "
                "rolled back."
            )

    def attempt(self, op: Op[T]) -> Work[T]:
        self.check_whole()
        if self.joined is None:
            return (yield from self._attempt(op))
        self.joined.check()
        try:
            return (yield from self._attempt(op))
        finally:
            self.joined.note()

    def _attempt(self, op: Op[T]) -> Work[T]:
        if not op.writes:
            return (yield from self._converse(op, (), set()))
        news: set[str] = set()
        try:
            result = yield from self._converse(op, (_SAVE,), news)
            self.announced |= news
            yield SessionSend((*self.notifications(news), _RELEASE))
        except HeadraceError:
            raise
        except BaseException:
            # From a signal handler, at any point: it is unknown which statements have run.
            self._is_broken = True
            raise
        return result

    def notifications(self, news: Collection[str]) -> Sequence[Statement]:
        """Statements that notify other processes after the COMMIT, if the database can do that."""
        return ()

    def _converse(self, op: Op[T], opening: tuple[Statement, ...], news: set[str]) -> Work[T]:
        steps = iter(op)
        answer: Any = None
        point = 0
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                if opening and point == 0:
                    yield SessionSend(opening)
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            except Exception:
                if opening and point:
                    yield SessionSend((_UNDO, _RELEASE))
                raise
            if isinstance(request, Notify):
                news |= request.topics
                answer = None
                continue
            if isinstance(request, RequireFlush):
                answer = None
                continue
            if isinstance(request, Separate):
                answer = yield request
                continue
            if isinstance(request, NoReply):
                request = request.statements
            self.probe(op.name, point)
            first = opening if point == 0 else ()
            point += 1
            is_one = isinstance(request, Statement | Many)
            try:
                rows = yield SessionSend(first + ((request,) if is_one else tuple(request)))
            except StoreError:
                if opening:
                    yield from self._undo()
                raise
            rows = rows[len(first) :]
            answer = rows[0] if is_one else rows

    def _undo(self) -> Work[None]:
        """Undo a failed operation, so that the transaction can go on.

        If that fails, too, the transaction is over, and every later call raises.
        """
        try:
            yield SessionSend((_UNDO, _RELEASE))
        except StoreError:
            self._is_broken = True


def not_ours(connection: object, wanted: str) -> InvalidOption:
    """The error for a connection of a kind that cannot be used here."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    hint = ""
    if sqlalchemy_adapter.is_alchemy(connection) and hasattr(connection, "begin"):
        hint = ": an engine has no transaction, so hand over the connection of "
        hint += "`with engine.begin() as connection:`"
    return InvalidOption(f"using() takes {wanted} here, not a {kind}{hint}.", option="connection")
