"""Transactions of a PostgreSQL store, and what became of them when the answer is lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import errors as pg

from headrace.contract.op import Op, Steps
from headrace.drivers.postgres import diagnosis, failures
from headrace.drivers.postgres.connecting import Checkin, Connecting, Send
from headrace.drivers.relational.sql import (
    Announce,
    Evidence,
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
)
from headrace.errors import HeadraceError, OutcomeUnknown, StoreBusy

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
# Known before COMMIT is sent, so that its fate can be asked from another connection.
_IDENTIFY = Statement(
    "identify",
    "select pg_current_xact_id()::text as xid, pg_postmaster_start_time()::text as server",
    {},
)


class Begun(msgspec.Struct, frozen=True):
    """An open transaction for several operations."""

    connection: Any
    identity: dict[str, str]


class LostAtCommit(Exception):
    """The connection broke between COMMIT and its answer."""

    def __init__(
        self, identity: dict[str, str] | None, evidence: Statement | None, result: object
    ) -> None:
        super().__init__()
        self.identity = identity
        self.evidence = evidence
        self.result = result


class Transacting(Connecting):
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
                result = yield from self._transact(connection, op, first)
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

    def _transact(self, connection: Any, op: Op[T], first: tuple[Statement, ...]) -> Work[T]:
        # A claim that is lost is no loss: it need not be asked about, only repeated.
        asked = () if op.repeatable and op.relaxed else (_IDENTIFY,)
        durability = (_WAIT_FOR_DISK,) if op.durable else self._opening
        opening = (_BEGIN, *first, *((_RELAX,) if op.relaxed else durability), *asked)
        # Statements whose answer nobody waits for: they go with the next, or with COMMIT.
        closing: tuple[Statement | Many, ...] = ()
        is_begun = was_sent = False
        identity: dict[str, str] | None = None
        evidence: Statement | None = None
        announced: set[str] = set()
        steps = op.alone()
        answer: Any = None
        point = 0
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                break
            except HeadraceError:
                if is_begun:
                    yield Send(connection, (_ROLLBACK,))
                raise
            if isinstance(request, Evidence):
                evidence, answer = request.statement, None
                continue
            if isinstance(request, Announce):
                announced |= request.topics
                answer = None
                continue
            if isinstance(request, Insist):
                if op.relaxed and self.is_safe and is_begun:
                    closing += (_WAIT_FOR_DISK,)
                answer = None
                continue
            if isinstance(request, Finally):
                closing, answer = closing + request.statements, None
                continue
            if isinstance(request, Whole) and not is_begun:
                whole = first if op.relaxed else first + self._opening
                answer = yield from self._send_whole(connection, op, whole, request, point)
                point += 1
                was_sent = True
                continue
            self.probe(op.name, point)
            point += 1
            before = closing if is_begun else opening + closing
            closing = ()
            rows = yield Send(connection, before + _as_tuple(request))
            if not is_begun and asked:
                identity = rows[len(opening) - 1][0]
            is_begun = True
            answer = _answer(request, rows[len(before) :])
        if is_begun:
            closing += tuple(self.notifications(sorted(announced)) if announced else ())
            self.probe(op.name, "commit")
            try:
                yield Send(connection, (*closing, _COMMIT), to_the_end=True)
            except psycopg.Error as error:
                if not failures.is_lost(error, connection):
                    raise
                raise LostAtCommit(identity, evidence, result) from error
            self.note_committed(announced)
        self.tell(announced)
        if is_begun or was_sent:
            self.probe(op.name, "committed")
        return result

    def _send_whole(
        self,
        connection: Any,
        op: Op[Any],
        before: tuple[Statement, ...],
        request: Whole,
        point: int,
    ) -> Work[list[Any] | None]:
        """Send statements outside of a transaction: several in one go are one all the same."""
        self.probe(op.name, point)
        self.probe(op.name, "commit")
        if failures.has_ended(connection):
            # Noticed before anything was sent, so nothing is in doubt.
            gone = psycopg.OperationalError("the server has closed the connection")
            raise TryAgain(failures.unavailable(gone, self.address))
        try:
            rows = yield Send(
                connection,
                before + request.statements,
                to_the_end=True,
                is_whole=True,
                behind=request.behind,
            )
        except pg.UniqueViolation as error:
            if error.diag.constraint_name not in ("batch_id", "tally_id"):
                raise
            return None
        except psycopg.Error as error:
            if error.sqlstate == failures.OUTRUN:
                return None
            if not failures.is_lost(error, connection):
                raise
            raise InDoubt(self._unknown(op)) from error
        return rows[len(before) :]  # type: ignore[no-any-return]  # a list of rows

    def _find_out(self, op: Op[Any], lost: LostAtCommit) -> Work[None]:
        """Return if the transaction was committed after all; ``TryAgain`` if it was not."""
        op.accept()
        unknown = self._unknown(op)
        error = lost.__cause__
        assert error is not None
        if lost.identity is None:
            raise InDoubt(unknown) from error
        give_up = time.monotonic() + self.patience
        delay = FIRST_DELAY
        while time.monotonic() < give_up:
            try:
                fate = yield from self._ask(lost.identity, lost.evidence)
            except (psycopg.Error, TryAgain):
                fate = "in progress"
            if fate == "committed":
                return
            if fate == "aborted":
                raise TryAgain(failures.unavailable(error, self.address)) from error
            if fate == "unknown":
                break
            yield Sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY)
        if op.repeatable:
            raise InDoubt(unknown) from error
        raise unknown from error

    def _unknown(self, op: Op[Any]) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the connection to {self.address} broke while {op.name!r} was being committed and "
            "the server cannot say what became of it: look, or repeat it with an idempotency key.",
            operation=op.name,
        )

    def _ask(self, identity: dict[str, str], evidence: Statement | None) -> Work[str]:
        """What became of a transaction: committed, aborted, in progress, or unknown."""
        connection = yield from self._checkout()
        is_good = False
        try:
            status = Statement(
                "fate",
                "select pg_xact_status(%(xid)s::xid8) as fate,"
                " pg_postmaster_start_time()::text as server",
                {"xid": identity["xid"]},
            )
            try:
                [[row]] = yield Send(connection, (status,))
            except pg.InvalidParameterValue:
                # "in the future": a crash took the transaction and even its number.
                row = {"fate": "aborted", "server": ""}
            fate = row["fate"] or "unknown"
            if fate == "committed" and evidence is not None:
                # A crash may have given the number to somebody else's transaction.
                [found] = yield Send(connection, (evidence,))
                fate = "committed" if found else "aborted"
            elif fate == "committed" and row["server"] != identity["server"]:
                fate = "unknown"
            is_good = True
            return fate
        finally:
            yield Checkin(connection, is_good)

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
        opening = (_BEGIN, *self._opening, _IDENTIFY)
        delay = FIRST_DELAY
        give_up = time.monotonic() + self.patience
        while True:
            try:
                return (yield from self._begin(opening))
            except TryAgain as failure:
                if time.monotonic() + delay > give_up:
                    raise failure.error from failure.__cause__
            yield Sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    def _begin(self, opening: tuple[Statement, ...]) -> Work[Begun]:
        connection = yield from self._checkout(is_lasting=True)
        try:
            rows = yield Send(connection, opening)
        except psycopg.Error as error:
            yield Checkin(connection, is_good=False, is_lasting=True)
            raise self._judge(error, connection) from error
        return Begun(connection, rows[-1][0])

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
            lost = LostAtCommit(begun.identity, None, None)
            lost.__cause__ = error
        finally:
            yield Checkin(begun.connection, is_good, is_lasting=True)
        if lost is not None:
            try:
                yield from self._find_out(Op("transaction", _no_steps), lost)
            except TryAgain as failure:
                raise failure.error from failure.__cause__


def _as_tuple(request: Any) -> tuple[Statement | Many, ...]:
    if isinstance(request, Whole):
        behind = () if request.behind is None else (request.behind,)
        return request.statements + behind
    return (request,) if isinstance(request, Statement | Many) else tuple(request)


def _answer(request: Any, rows: list[Any]) -> Any:
    if isinstance(request, Statement | Many):
        return rows[0]
    return rows[: len(request.statements)] if isinstance(request, Whole) else rows


def _no_steps() -> Steps[None]:
    yield from ()
