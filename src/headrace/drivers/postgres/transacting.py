"""Transactions of a PostgreSQL store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import errors as pg

from headrace.contract.op import Op, Steps
from headrace.drivers.postgres import diagnosis, failures
from headrace.drivers.postgres.connecting import Checkin, Send
from headrace.drivers.postgres.fates import Fates, Identity, LostAtCommit
from headrace.drivers.relational.sql import (
    Announce,
    Finally,
    Insist,
    Many,
    Statement,
    Whole,
)
from headrace.drivers.running import (
    FIRST_DELAY,
    LONGEST_DELAY,
    Collided,
    InDoubt,
    Sleep,
    TryAgain,
    Work,
    no_probe,
)
from headrace.errors import HeadraceError, StoreBusy

T = TypeVar("T")

_BEGIN = Statement("begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", {})
_COMMIT = Statement("commit", "COMMIT", {})
_ROLLBACK = Statement("rollback", "ROLLBACK", {})
_WAIT_FOR_DISK = Statement(
    "wait_for_disk", "select set_config('synchronous_commit', 'on', true)", {}
)
_RELAX = Statement("relax", "select set_config('synchronous_commit', 'off', true)", {})
# Waited for before anything else is locked, so that nobody waits for those who stand in line.
_STAND_IN_LINE = Statement("stand_in_line", "select pg_advisory_xact_lock(1214603637, 0)", {})


class Begun(msgspec.Struct, frozen=True):
    """An open transaction for several operations."""

    connection: Any
    identity: Identity


class Talk:
    """How far a run of an operation has come."""

    __slots__ = ("announced", "answer", "point", "request", "steps", "was_sent")

    def __init__(self, steps: Steps[Any]) -> None:
        self.steps = steps
        # What it wants that nobody has done yet, and what it is told.
        self.request: Any = None
        self.answer: Any = None
        # How many requests were sent, and whether one was a transaction by itself.
        self.point = 0
        self.was_sent = False
        # The topics and queues that it has news of.
        self.announced: set[str] = set()


class Transacting(Fates):
    """Runs operations in transactions of their own, or several in one."""

    def __init__(self, conninfo: str, *, is_safe: bool, patience: float) -> None:
        super().__init__(conninfo, patience=patience)
        self.is_safe = is_safe
        self._opening: tuple[Statement, ...] = () if is_safe else (_RELAX,)

    def insist_on_disk(self) -> None:
        """Wait for the disk at each commit although the server's default is not to."""
        if self.is_safe:
            self._opening = (_WAIT_FOR_DISK,)

    def note_committed(self, names: set[str]) -> None:
        """A transaction of several steps with news in these topics and queues is committed."""
        raise NotImplementedError

    def notifications(self, names: Sequence[str]) -> Sequence[Statement]:
        """What a transaction with news in these topics and queues tells other processes."""
        raise NotImplementedError

    def tell(self, names: set[str]) -> None:
        """Wake who waits in this process for news in these topics and queues."""
        raise NotImplementedError

    def attempt(self, op: Op[T]) -> Work[T]:
        return self._attempt_with(op, ())

    def attempt_in_line(self, op: Op[T]) -> Work[T]:
        return self._attempt_with(op, (_STAND_IN_LINE,))

    def _attempt_with(self, op: Op[T], first: tuple[Statement, ...]) -> Work[T]:
        try:
            return (yield from self._attempt(op, first))
        except LostAtCommit as lost:
            # Asked only now, when the broken connection has given its place in the pool up.
            yield from self._find_out(op, lost)
            result: T = lost.result  # type: ignore[assignment]  # exceptions are not generic
            return result

    def _attempt(self, op: Op[T], first: tuple[Statement, ...]) -> Work[T]:
        connection = yield from self._checkout()
        is_good = False
        try:
            if op.writes:
                result = yield from self._transact(connection, op, Talk(op.alone()), first)
            else:
                result = yield from self._read_steps(connection, op)
            is_good = True
            return result
        except HeadraceError:
            # Raised by the operation itself, which was rolled back: the connection is fine.
            is_good = True
            raise
        except psycopg.Error as error:
            raise self._judge(error, connection) from error
        finally:
            yield Checkin(connection, is_good)

    def _read_steps(self, connection: Any, op: Op[T]) -> Work[T]:
        """Send each step by itself: a log's past does not change between two of them."""
        steps = iter(op)
        answer: Any = None
        point = 0
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            if isinstance(request, diagnosis.Handshake):
                answer = connection.info.backend_pid
                continue
            self.probe(op.name, point)
            point += 1
            rows = yield Send(connection, _as_tuple(request))
            answer = rows[0] if isinstance(request, Statement | Many) else rows

    def _transact(
        self, connection: Any, op: Op[T], talk: Talk, first: tuple[Statement, ...] = ()
    ) -> Work[T]:
        """Do what is left of an operation, in a transaction if it asks for more than statements
        that are one by themselves."""
        # A claim that is lost is no loss: it need not be asked about, only repeated.
        signature = None if op.repeatable and op.relaxed else connection.signatures.next()
        signed = () if signature is None else (self._sign(signature),)
        durability = (_WAIT_FOR_DISK,) if op.durable else self._opening
        opening = (
            _BEGIN,
            *first,
            *((self.sql.begin_relaxed(),) if op.relaxed else durability),
            *signed,
        )
        # Statements whose answer nobody waits for: they go with the next, or with COMMIT.
        closing: tuple[Statement | Many, ...] = ()
        is_begun = False
        identity: Identity | None = None
        announced = talk.announced
        while True:
            try:
                request = talk.steps.send(talk.answer) if talk.request is None else talk.request
            except StopIteration as stop:
                result: T = stop.value
                break
            except HeadraceError:
                if is_begun:
                    yield Send(connection, (_ROLLBACK,))
                raise
            talk.request = talk.answer = None
            if isinstance(request, Announce):
                announced |= request.topics
                continue
            if isinstance(request, Insist):
                if op.relaxed and self.is_safe and is_begun:
                    closing += (_WAIT_FOR_DISK,)
                continue
            if isinstance(request, Finally):
                closing += request.statements
                continue
            if isinstance(request, Whole) and not is_begun:
                talk.answer = yield from self._send_whole(connection, op, talk, request, first)
                continue
            self.probe(op.name, talk.point)
            talk.point += 1
            before = closing if is_begun else opening + closing
            closing = ()
            rows = yield Send(connection, before + _as_tuple(request))
            if not is_begun and signature is not None:
                identity = Identity(rows[len(opening) - 1][0]["xid"], signature, time.monotonic())
            is_begun = True
            talk.answer = _answer(request, rows[len(before) :])
        if is_begun:
            closing += tuple(self.notifications(sorted(announced)) if announced else ())
            self.probe(op.name, "commit")
            try:
                yield Send(connection, (*closing, _COMMIT), to_the_end=True)
            except psycopg.Error as error:
                if not failures.is_lost(error, connection):
                    raise
                raise LostAtCommit(identity, result) from error
            self.note_committed(announced)
        self.tell(announced)
        if is_begun or talk.was_sent:
            self.probe(op.name, "committed")
        return result

    def _send_whole(
        self,
        connection: Any,
        op: Op[Any],
        talk: Talk,
        request: Whole,
        first: tuple[Statement, ...],
    ) -> Work[list[Any] | None]:
        """Send statements outside of a transaction: several in one go are one all the same."""
        before = self._before_whole(connection, op, talk, request, first)
        try:
            rows = yield whole(connection, before, request)
        except psycopg.Error as error:
            self._not_done(connection, op, error)
            return None
        return rows[len(before) :]  # type: ignore[no-any-return]  # a list of rows

    def _before_whole(
        self,
        connection: Any,
        op: Op[Any],
        talk: Talk,
        request: Whole,
        first: tuple[Statement, ...] = (),
    ) -> tuple[Statement, ...]:
        """What goes before statements that are a transaction by themselves."""
        if self.probe is not no_probe:
            self.probe(op.name, talk.point)
            self.probe(op.name, "commit")
        talk.point += 1
        talk.was_sent = True
        if failures.has_ended(connection):
            gone = psycopg.OperationalError("the server has closed the connection")
            if request.confirms:
                raise InDoubt(self._unknown(op)) from gone
            # Noticed before anything was sent, so nothing is in doubt.
            raise TryAgain(failures.unavailable(gone, self.address))
        return first if op.relaxed else first + self._opening

    def _not_done(self, connection: Any, op: Op[Any], error: psycopg.Error) -> None:
        """Return if statements were not done because they had been before, others were faster, or
        there is another way; ``InDoubt`` if nobody knows whether they were."""
        if isinstance(error, pg.UniqueViolation):
            if error.diag.constraint_name not in ("batch_id", "tally_id"):
                raise error
        elif error.sqlstate not in (failures.OUTRUN, failures.TOO_MUCH):
            if not failures.is_lost(error, connection):
                raise error
            raise InDoubt(self._unknown(op)) from error

    def _judge(self, error: psycopg.Error, connection: Any) -> Exception:
        if failures.is_prepare_trouble(error):
            self._prepares = False
            return TryAgain(failures.unavailable(error, self.address))
        if failures.is_lost(error, connection):
            return TryAgain(failures.unavailable(error, self.address))
        known = failures.passing(error, self.address)
        if known is None:
            return failures.final(error, self.address)
        return Collided(known) if isinstance(known, StoreBusy) else TryAgain(known)

    def begin(self) -> Work[Begun]:
        """Open a transaction for several operations."""
        delay = FIRST_DELAY
        give_up = time.monotonic() + self.patience
        while True:
            try:
                return (yield from self._begin())
            except TryAgain as failure:
                if time.monotonic() + delay > give_up:
                    raise failure.error from failure.__cause__
            yield Sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    def _begin(self) -> Work[Begun]:
        connection = yield from self._checkout(is_lasting=True)
        signature = connection.signatures.next()
        try:
            rows = yield Send(connection, (_BEGIN, *self._opening, self._sign(signature)))
        except psycopg.Error as error:
            yield Checkin(connection, is_good=False, is_lasting=True)
            raise self._judge(error, connection) from error
        return Begun(connection, Identity(rows[-1][0]["xid"], signature, time.monotonic()))

    def abandon(self, begun: Begun) -> Work[None]:
        """Roll a transaction back."""
        is_good = False
        try:
            yield Send(begun.connection, (_ROLLBACK,))
            is_good = True
        except psycopg.Error:
            # The connection is gone, and the transaction with it.
            pass
        finally:
            yield Checkin(begun.connection, is_good, is_lasting=True)

    def complete(self, begun: Begun) -> Work[None]:
        """Commit a transaction of several operations, and find out if the answer is lost."""
        is_good = False
        lost: LostAtCommit | None = None
        try:
            self.probe("transaction", "commit")
            yield Send(begun.connection, (_COMMIT,), to_the_end=True)
            self.probe("transaction", "committed")
            is_good = True
        except psycopg.Error as error:
            if not failures.is_lost(error, begun.connection):
                known = failures.passing(error, self.address)
                raise known or failures.final(error, self.address) from error
            lost = LostAtCommit(begun.identity, None)
            lost.__cause__ = error
        finally:
            yield Checkin(begun.connection, is_good, is_lasting=True)
        if lost is not None:
            try:
                yield from self._find_out(Op("transaction", _no_steps), lost)
            except TryAgain as failure:
                raise failure.error from failure.__cause__


def whole(connection: Any, before: tuple[Statement, ...], request: Whole) -> Send:
    """Send statements that are a transaction by themselves, and others before them."""
    return Send(
        connection,
        before + request.statements,
        to_the_end=True,
        is_whole=True,
        behind=request.behind,
    )


def _as_tuple(request: Any) -> tuple[Statement | Many, ...]:
    if isinstance(request, Whole):
        behind = () if request.behind is None else (request.behind,)
        return request.statements + behind
    return (request,) if isinstance(request, Statement | Many) else tuple(request)


def _answer(request: Any, rows: list[Any]) -> Any:
    if isinstance(request, Statement | Many):
        return rows[0]
    # What goes behind is part of the transaction here: it is not over yet.
    return rows[: len(request.statements)] if isinstance(request, Whole) else rows


def _no_steps() -> Steps[None]:
    yield from ()
