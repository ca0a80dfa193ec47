"""Transactions of a PostgreSQL store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import psycopg

from headrace.contract.op import Op, Steps
from headrace.drivers.postgres import doctor, sqlstate
from headrace.drivers.postgres.advisory_locks import AdvisoryLock
from headrace.drivers.postgres.attempts import AttemptHost, Attempts, RunState, steps_of
from headrace.drivers.postgres.commit_markers import CommitMarker
from headrace.drivers.postgres.commit_resolution import (
    Identity,
    LostAtCommit,
)
from headrace.drivers.postgres.connections import Checkin, Send
from headrace.drivers.postgres.network_timeouts import GRACE_SECONDS
from headrace.drivers.postgres.round_trip import COMMIT
from headrace.drivers.runner import (
    FIRST_DELAY,
    MAX_DELAY_SECONDS,
    Sleep,
    TryAgain,
    Work,
)
from headrace.drivers.sql_common.statements import (
    Autocommit,
    Many,
    NoReply,
    Notify,
    RequireFlush,
    Statement,
)
from headrace.errors import HeadraceError, StoreError

T = TypeVar("T")

_BEGIN = Statement("begin", "BEGIN ISOLATION LEVEL READ COMMITTED", {})
_ROLLBACK = Statement("rollback", "ROLLBACK", {})
# For a transaction that began as relaxed.
_REQUIRE_FLUSH = Statement(
    "require_flush",
    "select set_config('synchronous_commit', replace(reset_val, 'off', 'on'), true) "
    "from pg_settings where name = 'synchronous_commit'",
    {},
)
# Waited for before any other lock, so that no transaction waits for those in line.
_STAND_IN_LINE = Statement(
    "stand_in_line", f"select pg_advisory_xact_lock({AdvisoryLock.COLLIDED:d}, 0)", {}
)


class Begun(msgspec.Struct, frozen=True):
    """An open transaction for several operations."""

    connection: Any
    identity: Identity


class OpTransaction:
    """The transaction of one operation."""

    __slots__ = ("_marker", "_opening", "identity", "is_begun", "unsent")

    def __init__(self, opening: tuple[Statement, ...], marker: CommitMarker | None) -> None:
        self._opening = opening
        self._marker = marker
        # Statements without a reply: they go with the next ones, or with COMMIT.
        self.unsent: tuple[Statement | Many, ...] = ()
        self.is_begun = False
        self.identity: Identity | None = None

    def before(self) -> tuple[Statement | Many, ...]:
        """What precedes the next statements in their round trip."""
        return self.unsent if self.is_begun else self._opening + self.unsent

    def rows_of(self, statements: Sequence[object], rows: list[Any]) -> list[Any]:
        """The rows of the last statements of a round trip; notes that it has succeeded."""
        if not self.is_begun and self._marker is not None:
            xid = rows[len(self._opening) - 1][0]["xid"]
            self.identity = Identity(xid, self._marker, time.monotonic())
        self.is_begun = True
        self.unsent = ()
        return rows[len(rows) - len(statements) :]


class Transactions:
    """Attempts operations in transactions of their own, or several in one."""

    def __init__(self, store: AttemptHost, attempts: Attempts) -> None:
        self._store = store
        self._attempts = attempts
        self._connections = attempts.connections
        self._resolver = attempts.resolver

    def attempt(self, op: Op[T]) -> Work[T]:
        return self._attempt_with(op, ())

    def attempt_in_line(self, op: Op[T]) -> Work[T]:
        return self._attempt_with(op, (_STAND_IN_LINE,))

    def _attempt_with(self, op: Op[T], first: tuple[Statement, ...]) -> Work[T]:
        state = RunState(steps_of(op) if op.writes else iter(op))
        try:
            try:
                return (yield from self._attempt(op, state, first))
            except LostAtCommit as lost:
                # Asked only now, after the broken connection has freed its slot in the pool.
                yield from self._resolver.find_out(op, lost)
                result: T = lost.result  # type: ignore[assignment]  # exceptions are not generic
                return result
        except (TryAgain, StoreError) as failure:
            raise self._attempts.in_part(op, state, failure) from failure.__cause__

    def _attempt(self, op: Op[T], state: RunState, first: tuple[Statement, ...]) -> Work[T]:
        connection = yield from self._connections.checkout(op.give_up)
        is_good = False
        try:
            if op.writes:
                result = yield from self.transact(connection, op, state, first)
            else:
                result = yield from self._read_steps(connection, op, state.steps)
            is_good = True
            return result
        except HeadraceError:
            # Raised by the operation itself, which was rolled back: the connection is fine.
            is_good = True
            raise
        except psycopg.Error as error:
            raise self._attempts.judge(error, connection) from error
        finally:
            yield Checkin(connection, is_good)

    def _read_steps(self, connection: Any, op: Op[T], steps: Steps[T]) -> Work[T]:
        """Send each step in its own transaction: past records do not change between them."""
        answer: Any = None
        point = 0
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            if isinstance(request, doctor.Handshake):
                answer = connection.info.backend_pid
                continue
            self._store.probe(op.name, point)
            point += 1
            rows = yield Send(connection, _as_tuple(request), is_read=True)
            answer = rows[0] if isinstance(request, Statement | Many) else rows

    def transact(
        self, connection: Any, op: Op[T], state: RunState, first: tuple[Statement, ...] = ()
    ) -> Work[T]:
        """Run the rest of an operation. It gets a transaction, unless each request is one of its
        own."""
        transaction = self._prepare(connection, op, first)
        while True:
            try:
                request = state.steps.send(state.answer) if state.request is None else state.request
            except StopIteration as stop:
                result: T = stop.value
                break
            except HeadraceError:
                if transaction.is_begun:
                    yield Send(connection, (_ROLLBACK,))
                raise
            state.request = state.answer = None
            if isinstance(request, Notify):
                state.announced |= request.topics
            elif isinstance(request, RequireFlush):
                if op.relaxed and self._store.is_safe and transaction.is_begun:
                    transaction.unsent += (_REQUIRE_FLUSH,)
            elif isinstance(request, NoReply):
                transaction.unsent += request.statements
            elif isinstance(request, Autocommit) and not transaction.is_begun:
                state.answer = yield from self._send_autocommit(
                    connection, op, state, request, first
                )
            else:
                self._store.probe(op.name, state.point)
                state.point += 1
                statements = _as_tuple(request)
                rows = yield Send(connection, transaction.before() + statements)
                state.answer = _answer(request, transaction.rows_of(statements, rows))
        if transaction.is_begun:
            yield from self._commit(connection, op, state, transaction, result)
        self._store.notifier.notify(state.announced)
        if transaction.is_begun or state.was_sent:
            self._store.probe(op.name, "committed")
        return result

    def _prepare(self, connection: Any, op: Op[Any], first: tuple[Statement, ...]) -> OpTransaction:
        """A transaction that begins with the first request that needs it."""
        # A lost claim is harmless: repeat it without asking what became of it.
        marker = None if op.repeatable and op.relaxed else connection.markers.next()
        marking = () if marker is None else (self._resolver.write_marker(marker),)
        durability = () if op.durable else self._attempts.opening
        if op.relaxed:
            durability = (self._store.sql.begin_relaxed(),)
        return OpTransaction((_BEGIN, *first, *durability, *marking), marker)

    def _commit(
        self, connection: Any, op: Op[T], state: RunState, transaction: OpTransaction, result: T
    ) -> Work[None]:
        """Commit; raise ``LostAtCommit`` if the answer is lost."""
        identity, announced = transaction.identity, state.announced
        began = time.monotonic() if identity is None else identity.marked_at
        closing = transaction.unsent
        if announced:
            closing += tuple(self._store.notifier.notifications(sorted(announced)))
        self._store.probe(op.name, "commit")
        try:
            yield Send(connection, (*closing, COMMIT))
        except psycopg.Error as error:
            if not sqlstate.is_lost(error, connection):
                raise
            raise LostAtCommit(identity, result, began) from error
        self._store.queue_cache.lower_floors(announced)

    def _send_autocommit(
        self,
        connection: Any,
        op: Op[Any],
        state: RunState,
        request: Autocommit,
        first: tuple[Statement, ...],
    ) -> Work[list[Any] | None]:
        """Send statements outside of a transaction: together they are one all the same."""
        before = self._attempts.before_autocommit(connection, op, state, request, first)
        statements = before + request.statements
        try:
            rows = yield Send(connection, statements, is_autocommit=True, behind=request.behind)
        except psycopg.Error as error:
            self._attempts.not_done(connection, op, request, error)
            return None
        answer: list[Any] = rows[len(before) :]
        if answer[0] and not request.reads:
            state.has_stored = True
        return answer

    def begin(self) -> Work[Begun]:
        """Open a transaction for several operations."""
        delay = FIRST_DELAY
        give_up = time.monotonic() + self._store.patience
        while True:
            try:
                return (yield from self._begin(give_up))
            except TryAgain as failure:
                if time.monotonic() + delay > give_up:
                    raise failure.error from failure.__cause__
            yield Sleep(delay)
            delay = min(delay * 2, MAX_DELAY_SECONDS)

    def _begin(self, give_up: float) -> Work[Begun]:
        connection = yield from self._connections.checkout(give_up, is_lasting=True)
        marker = connection.markers.next()
        try:
            rows = yield Send(
                connection, (_BEGIN, *self._attempts.opening, self._resolver.write_marker(marker))
            )
        except BaseException as error:
            # Also if the caller was cancelled: the server ends the transaction.
            yield Checkin(connection, is_good=False, is_lasting=True)
            if isinstance(error, psycopg.Error):
                raise self._attempts.judge(error, connection) from error
            raise
        connection.limit = self._store.patience + GRACE_SECONDS
        return Begun(connection, Identity(rows[-1][0]["xid"], marker, time.monotonic()))

    def abandon(self, begun: Begun) -> Work[None]:
        """Roll a transaction back."""
        is_good = False
        try:
            if not sqlstate.is_amid_answers(begun.connection):
                yield Send(begun.connection, (_ROLLBACK,))
                is_good = True
        except psycopg.Error:
            # The connection is gone, and the transaction with it.
            pass
        finally:
            yield Checkin(begun.connection, is_good, is_lasting=True)

    def complete(self, begun: Begun) -> Work[None]:
        """Commit a transaction of several operations; if the answer is lost, find out."""
        is_good = False
        lost: LostAtCommit | None = None
        began = time.monotonic()
        try:
            self._store.probe("transaction", "commit")
            yield Send(begun.connection, (COMMIT,))
            self._store.probe("transaction", "committed")
            is_good = True
        except psycopg.Error as error:
            if not sqlstate.is_lost(error, begun.connection):
                if sqlstate.is_prepare_trouble(error):
                    self._connections.do_without_preparing()
                known = sqlstate.passing(error, self._connections.address)
                raise known or sqlstate.final(error, self._connections.address) from error
            lost = LostAtCommit(begun.identity, None, began)
            lost.__cause__ = error
        finally:
            yield Checkin(begun.connection, is_good, is_lasting=True)
        if lost is not None:
            try:
                yield from self._resolver.find_out(Op("transaction", _no_steps), lost)
            except TryAgain as failure:
                raise failure.error from failure.__cause__


def _as_tuple(request: Any) -> tuple[Statement | Many, ...]:
    if isinstance(request, Autocommit):
        behind = () if request.behind is None else (request.behind,)
        return request.statements + behind
    return (request,) if isinstance(request, Statement | Many) else tuple(request)


def _answer(request: Any, rows: list[Any]) -> Any:
    if isinstance(request, Statement | Many):
        return rows[0]
    # Inside a transaction the statement behind is part of it: the transaction is still open.
    return rows[: len(request.statements)] if isinstance(request, Autocommit) else rows


def _no_steps() -> Steps[None]:
    yield from ()
