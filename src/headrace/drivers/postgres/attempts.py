"""One attempt at an operation: its state, what its failures mean, and statements that are a
transaction of their own.

Most operations are one such statement, and the client's share of the cost is not small. So blocking
callers have a shorter path (``SyncAttempt``): nothing stands between the steps of an operation and
the connection. Any other request continues in ``transactions.py``.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.pq import ConnStatus

from headrace.contract.op import Op, Steps
from headrace.drivers.postgres import sqlstate
from headrace.drivers.postgres.commit_resolution import CommitResolver, LostAtCommit
from headrace.drivers.postgres.connections import PostgresConnections
from headrace.drivers.postgres.fastpath.cache import QueueCache
from headrace.drivers.postgres.libpq import Unconfirmed
from headrace.drivers.postgres.notify import PostgresNotify
from headrace.drivers.postgres.round_trip import send_autocommit
from headrace.drivers.runner import Collided, InDoubt, Probe, TryAgain, Work, drive, no_probe
from headrace.drivers.sql_common.statements import Autocommit, Notify, Statement, Statements
from headrace.errors import HeadraceError, OutcomeUnknown, StoreBusy, StoreError

T = TypeVar("T")


class RunState:
    """How far a run of an operation has come."""

    __slots__ = ("announced", "answer", "has_stored", "point", "request", "steps", "was_sent")

    def __init__(self, steps: Steps[Any]) -> None:
        self.steps = steps
        # The request that is not served yet, and the answer to the one before.
        self.request: Any = None
        self.answer: Any = None
        # How many requests were sent, and whether one was a transaction of its own.
        self.point = 0
        self.was_sent = False
        # Whether one of those has stored something: then no failure may say that nothing is.
        self.has_stored = False
        # The topics and queues with news.
        self.announced: set[str] = set()


class AttemptHost(Protocol):
    """What attempts and transactions need of their store."""

    patience: float
    probe: Probe
    is_safe: bool
    sql: Statements
    notifier: PostgresNotify
    queue_cache: QueueCache

    def drive(self, work: Work[T]) -> T: ...

    def perform(self, action: Any) -> Any: ...


class Attempts:
    """What all attempts share: how they begin, and what their failures mean."""

    def __init__(
        self, store: AttemptHost, connections: PostgresConnections, resolver: CommitResolver
    ) -> None:
        self._store = store
        self.connections = connections
        self.resolver = resolver

    @property
    def opening(self) -> tuple[Statement, ...]:
        """What precedes statements that must be durable.

        In a safe store, ``write_marker`` and functions that are a whole operation require the flush.
        """
        return () if self._store.is_safe else (self._store.sql.relax(),)

    def before_autocommit(
        self,
        connection: Any,
        op: Op[Any],
        state: RunState,
        request: Autocommit,
        first: tuple[Statement, ...] = (),
    ) -> tuple[Statement, ...]:
        """What precedes statements that are a transaction of their own."""
        if self._store.probe is not no_probe:
            self._store.probe(op.name, state.point)
            self._store.probe(op.name, "commit")
        state.point += 1
        state.was_sent = True
        if _has_ended(connection):
            gone = psycopg.OperationalError("the server has closed the connection")
            if request.confirms or state.has_stored:
                raise InDoubt(self.resolver.unknown(op)) from gone
            # Noticed before anything was sent, so nothing is in doubt.
            raise TryAgain(sqlstate.unavailable(gone, self.connections.address))
        return first if op.relaxed else first + self.opening

    def not_done(
        self, connection: Any, op: Op[Any], request: Autocommit, error: psycopg.Error
    ) -> None:
        """Return if statements had no effect: they ran before, others were faster, or the general
        path must do it. Raise ``InDoubt`` if it is unknown whether they took effect."""
        if request.confirms or isinstance(error, Unconfirmed):
            raise InDoubt(self.resolver.unknown(op)) from error
        if isinstance(error, pg.UniqueViolation):
            if error.diag.constraint_name not in ("batch_id", "tally_id"):
                raise error
        elif error.sqlstate not in (sqlstate.OUTRUN, sqlstate.TOO_MUCH):
            if not sqlstate.is_lost(error, connection):
                raise error
            raise InDoubt(self.resolver.unknown(op)) from error

    def in_part(self, op: Op[Any], state: RunState, failure: Exception) -> Exception:
        """The error for a failure after the operation has stored a part."""
        if not state.has_stored or isinstance(failure, InDoubt | OutcomeUnknown):
            return failure
        return InDoubt(self.resolver.unknown(op))

    def judge(self, error: psycopg.Error, connection: Any) -> Exception:
        """Our error for one of the library's, as ``TryAgain`` if another attempt may succeed."""
        if sqlstate.is_prepare_trouble(error):
            self.connections.do_without_preparing()
            return TryAgain(sqlstate.unavailable(error, self.connections.address))
        if sqlstate.is_lost(error, connection):
            return TryAgain(sqlstate.unavailable(error, self.connections.address))
        known = sqlstate.passing(error, self.connections.address)
        if known is None:
            return sqlstate.final(error, self.connections.address)
        return Collided(known) if isinstance(known, StoreBusy) else TryAgain(known)


class Transact(Protocol):
    """Runs the rest of an operation on a connection, in a transaction."""

    def __call__(self, connection: Any, op: Op[T], state: RunState) -> Work[T]: ...


class SyncAttempt:
    """Attempts operations in the calling thread."""

    def __init__(self, store: AttemptHost, attempts: Attempts, transact: Transact) -> None:
        self._store = store
        self._attempts = attempts
        self._transact = transact

    def __call__(self, op: Op[T]) -> T:
        """``Transactions.attempt`` without a generator."""
        state = RunState(steps_of(op))
        try:
            try:
                return self._with_connection(op, state)
            except LostAtCommit as lost:
                self._store.drive(self._attempts.resolver.find_out(op, lost))
                result: T = lost.result  # type: ignore[assignment]  # exceptions are not generic
                return result
        except (TryAgain, StoreError) as failure:
            raise self._attempts.in_part(op, state, failure) from failure.__cause__

    def _with_connection(self, op: Op[T], state: RunState) -> T:
        pool = self._attempts.connections.pool
        places = pool.places
        connection: Any = None
        is_good = False
        try:
            try:
                connection = pool.acquire(state, op.give_up)
            except psycopg.OperationalError as error:
                raise self._attempts.connections.not_connected(error) from error
            result = self._follow(connection, op, state)
            is_good = True
            return result
        except HeadraceError:
            # Raised by the operation itself, which was rolled back: the connection is fine.
            is_good = True
            raise
        except psycopg.Error as error:
            raise self._attempts.judge(error, connection) from error
        finally:
            try:
                if connection is not None:
                    pool.give(state, connection, is_good=is_good)
            finally:
                lost = places.owners.pop(state, None)
                if lost is not None or places.waiting:
                    places.left_by(lost)

    def _follow(self, connection: Any, op: Op[T], state: RunState) -> T:
        """Run the steps of an operation, as long as each request is a transaction of its own."""
        while True:
            try:
                request = state.steps.send(state.answer)
            except StopIteration as stop:
                if state.announced:
                    self._store.notifier.notify(state.announced)
                if state.was_sent and self._store.probe is not no_probe:
                    self._store.probe(op.name, "committed")
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            state.answer = None
            kind = type(request)
            if kind is Autocommit:
                before = self._attempts.before_autocommit(connection, op, state, request)
                try:
                    statements = before + request.statements
                    rows = send_autocommit(connection, statements, request.behind)
                    state.answer = rows[len(before) :]
                    if state.answer[0] and not request.reads:
                        state.has_stored = True
                except psycopg.Error as error:
                    self._attempts.not_done(connection, op, request, error)
            elif kind is Notify:
                state.announced |= request.topics
            else:
                state.request = request
                return drive(self._transact(connection, op, state), self._store.perform)


def steps_of(op: Op[T]) -> Steps[T]:
    """The steps for a transaction of its own: the fast body, if the operation has one."""
    if op.fast is None:
        return iter(op)
    op.was_run = True
    steps: Steps[T] = op.fast()
    return steps


def _has_ended(connection: Any) -> bool:
    """Whether the server has closed an idle connection, as far as the client can see."""
    pgconn, poller = connection.pgconn, connection.poller
    if connection.prepare_threshold is None:
        # A pooler may have given us a session with another client's LISTEN: libpq would keep all
        # its notifications.
        while pgconn.notifies() is not None:
            pass
    # A last message may come before the end itself; a few reads see both.
    for _ in range(3):
        if not poller.poll(0):
            return False
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        if pgconn.status == ConnStatus.BAD:
            return True
    return True
