"""The PostgreSQL store."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg import errors as pg
from psycopg.rows import dict_row

from headrace.contract.finishing import finish
from headrace.contract.items import Outcome, PushCall, PushOutcome, Settled, Take, Taking
from headrace.contract.op import Op, Steps
from headrace.contract.values import Capabilities, ClaimResult, CommitCall, CommitOutcome, Finding
from headrace.drivers.postgres import (
    appending,
    claiming,
    diagnosis,
    failures,
    queueing,
    sessions,
)
from headrace.drivers.postgres.pool import AnyAsyncConnection, AnyConnection, AsyncPool, Pool
from headrace.drivers.postgres.sending import OwnAsyncConnection, OwnConnection, asend, send
from headrace.drivers.postgres.staging import Staging
from headrace.drivers.postgres.wakes import Wakes
from headrace.drivers.relational.keys import CommitKeys
from headrace.drivers.relational.locks import Locks
from headrace.drivers.relational.maintenance import Maintenance
from headrace.drivers.relational.migrations import migrations
from headrace.drivers.relational.queues import PushKeys
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.drivers.relational.session import Session
from headrace.drivers.relational.sql import (
    NOUNS,
    Announce,
    Dialect,
    Evidence,
    Finally,
    Insist,
    Many,
    Sql,
    Statement,
    Whole,
)
from headrace.drivers.running import (
    FIRST_DELAY,
    LONGEST_DELAY,
    InDoubt,
    Runner,
    Sleep,
    TryAgain,
    Work,
)
from headrace.errors import HeadraceError, OutcomeUnknown
from headrace.waking.bell import Waiter

T = TypeVar("T")

DIALECT = Dialect(
    folder="postgres",
    word="headrace.",
    style="pyformat",
    nouns=(*NOUNS, "alone", "gate", "late", "staging", "wake"),
)
POOL_SIZE = 10

_BEGIN = Statement("begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", {})
_COMMIT = Statement("commit", "COMMIT", {})
_ROLLBACK = Statement("rollback", "ROLLBACK", {})
_WAIT_FOR_DISK = Statement(
    "wait_for_disk", "select set_config('synchronous_commit', 'on', true)", {}
)
_RELAX = Statement("relax", "select set_config('synchronous_commit', 'off', true)", {})
# Known before COMMIT is sent, so that its fate can be asked from another connection.
_IDENTIFY = Statement(
    "identify",
    "select pg_current_xact_id()::text as xid, pg_postmaster_start_time()::text as server",
    {},
)


class Checkout(msgspec.Struct, frozen=True):
    """Take a connection from the pool, for one operation or for a transaction that may last."""

    is_lasting: bool = False


class Send(msgspec.Struct, frozen=True):
    """Send statements in one round trip; the answer is their rows, statement by statement."""

    connection: Any
    statements: tuple[Statement | Many, ...]
    # An outcome under way is waited for even if the caller is cancelled.
    to_the_end: bool = False


class Checkin(msgspec.Struct, frozen=True):
    """Hand a connection back."""

    connection: Any
    is_good: bool
    is_lasting: bool = False


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


# Pools that a fork left in the child: they must be neither used nor closed there.
_left_by_fork: list[object] = []


class PostgresStore(Runner, Maintenance, Staging, Locks):
    """Headrace in a PostgreSQL schema. See ``headrace.contract.store.Store``."""

    name = "postgres"
    repeats_at_once = True
    capabilities = Capabilities(
        survives_restart=True,
        is_shared=True,
        resolves_outcome=True,
        has_record_view=True,
        composes=True,
        numbers_at_commit=True,
    )

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "headrace",
        is_safe: bool = True,
        patience: float,
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(patience=patience)
        self.conninfo = conninfo
        self.schema = schema
        self.address = _describe(conninfo)
        self.sql = Sql(DIALECT, f"{schema}.")
        self.keys = CommitKeys(self.sql)
        self.push_keys = PushKeys(self.sql)
        self._opening: tuple[Statement, ...] = () if is_safe else (_RELAX,)
        self._is_safe = is_safe
        self._prepares = True
        self._clock = clock
        self._last_rows = {}
        self.known = queueing.Known(self)
        self.wakes = Wakes(self)
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._pool = Pool(self.connect, POOL_SIZE)
        self._async_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPool] = (
            WeakKeyDictionary()
        )

    def clock(self) -> int | None:
        return self._clock() if self._clock else None

    def insist_on_disk(self) -> None:
        """Wait for the disk at each commit although the server's default is not to."""
        if self._is_safe:
            self._opening = (_WAIT_FOR_DISK,)

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        name = f"{self.schema}."
        site = diagnosis.Site(
            place=self.address,
            schema=self.schema,
            newest=migrations(DIALECT, name)[-1].version,
            is_safe=self._is_safe,
            now=self.clock(),
        )
        sql = Sql(DIALECT._replace(nouns=("doctor",)), name)
        return Op("diagnose", lambda: diagnosis.examine(site, sql), writes=False)

    def entered_queue(self, name: str) -> Steps[QueueRow | None]:
        sql = self.sql
        # Entered first and read then, on the same way: what is read counts until COMMIT.
        _, found = yield sql.enter_queue(name=name), sql.find_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        return queue if queue is not None and queue.is_live else None

    def close_queue(self, queue: QueueRow) -> Steps[None]:
        yield self.sql.close_queue(queue=queue.id)

    def commit_at_once(
        self, calls: Sequence[CommitCall]
    ) -> Callable[[], Steps[list[CommitOutcome]]] | None:
        return appending.commit_at_once(self, calls)

    def claim_at_once(
        self, proc: str, token: str, count: int, max_bytes: int
    ) -> Callable[[], Steps[ClaimResult]]:
        def under_lock() -> Steps[ClaimResult]:
            return self._claim(proc, token, count, max_bytes)

        return claiming.claim_at_once(self, proc, token, count, max_bytes, under_lock)

    def push_at_once(
        self, calls: Sequence[PushCall]
    ) -> Callable[[], Steps[list[PushOutcome]]] | None:
        return queueing.push_at_once(self, calls)

    def claim_items_at_once(self, take: Take) -> Callable[[], Steps[Taking]]:
        def slowly(is_repeat: bool) -> Steps[Taking]:
            return self.claim_steps(take, is_repeat=is_repeat)

        return queueing.claim_at_once(self, take, slowly)

    def settle_at_once(
        self, queue: str, outcomes: Sequence[Outcome]
    ) -> Callable[[], Steps[list[Settled]]] | None:
        return queueing.complete_at_once(self, queue, outcomes)

    def connect(self) -> AnyConnection:
        """Open a connection with the settings all of ours have."""
        return OwnConnection.connect(
            self.conninfo,
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=5 if self._prepares else None,
        )

    async def _aconnect(self) -> AnyAsyncConnection:
        return await OwnAsyncConnection.connect(
            self.conninfo,
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=5 if self._prepares else None,
        )

    def attempt(self, op: Op[T]) -> Work[T]:
        try:
            return (yield from self._attempt(op))
        except LostAtCommit as lost:
            # Asked only now, when the broken connection has given its place in the pool up.
            yield from self._find_out(op, lost)
            result: T = lost.result  # type: ignore[assignment]  # exceptions are not generic
            return result

    def _attempt(self, op: Op[T]) -> Work[T]:
        connection = yield from self._checkout()
        is_good = False
        try:
            if op.writes:
                result = yield from self._transact(connection, op)
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

    def _checkout(self, *, is_lasting: bool = False) -> Work[Any]:
        if self._pid != os.getpid():
            _left_by_fork.append((self._pool, self._async_pools))
            self._forget()
        try:
            return (yield Checkout(is_lasting))
        except psycopg.OperationalError as error:
            raise TryAgain(failures.unavailable(error, self.address)) from error

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

    def _transact(self, connection: Any, op: Op[T]) -> Work[T]:
        # A claim that is lost is no loss: it need not be asked about, only repeated.
        asked = () if op.repeatable and op.relaxed else (_IDENTIFY,)
        durability = (_WAIT_FOR_DISK,) if op.durable else self._opening
        opening = (_BEGIN, *((_RELAX,) if op.relaxed else durability), *asked)
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
                if op.relaxed and self._is_safe and is_begun:
                    closing += (_WAIT_FOR_DISK,)
                answer = None
                continue
            if isinstance(request, Finally):
                closing, answer = closing + request.statements, None
                continue
            if isinstance(request, Whole) and not is_begun:
                answer = yield from self._send_whole(connection, op, request.statements, point)
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
            rows = rows[len(before) :]
            answer = rows[0] if isinstance(request, Statement | Many) else rows
        if is_begun:
            self.probe(op.name, "commit")
            try:
                yield Send(connection, (*closing, _COMMIT), to_the_end=True)
            except psycopg.Error as error:
                if not failures.is_lost(error, connection):
                    raise
                raise LostAtCommit(identity, evidence, result) from error
            self.known.lower_floors(announced)
        self.wakes.ring(announced)
        if is_begun or was_sent:
            self.probe(op.name, "committed")
        return result

    def _send_whole(
        self, connection: Any, op: Op[Any], statements: tuple[Statement, ...], point: int
    ) -> Work[list[Any] | None]:
        """Send statements outside of a transaction: several in one go are one all the same."""
        self.probe(op.name, point)
        self.probe(op.name, "commit")
        if failures.has_ended(connection):
            # Noticed before anything was sent, so nothing is in doubt.
            gone = psycopg.OperationalError("the server has closed the connection")
            raise TryAgain(failures.unavailable(gone, self.address))
        opening = () if op.relaxed else self._opening
        try:
            rows = yield Send(connection, opening + statements, to_the_end=True)
        except pg.UniqueViolation as error:
            if error.diag.constraint_name not in ("batch_id", "tally_id"):
                raise
            return None
        except psycopg.Error as error:
            if not failures.is_lost(error, connection):
                raise
            raise InDoubt(self._unknown(op)) from error
        return rows[len(opening) :]  # type: ignore[no-any-return]  # a list of rows

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
        return TryAgain(known) if known else failures.final(error, self.address)

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

    def notifications(self, topics: Iterable[str]) -> Sequence[Statement]:
        return self.wakes.notifications(topics)

    def waiter(self, topic: str) -> Waiter:
        return self.wakes.waiter(topic)

    def transaction(self) -> AbstractContextManager[Session]:
        return sessions.own_transaction(self)

    def atransaction(self) -> AbstractAsyncContextManager[Session]:
        return sessions.own_async_transaction(self)

    def using(self, connection: Any) -> Session:
        return sessions.using(self, connection)

    def ausing(self, connection: Any) -> Session:
        return sessions.ausing(self, connection)

    def perform(self, action: Any) -> Any:
        match action:
            case Checkout(is_lasting):
                return self._pool.take(is_lasting=is_lasting)
            case Send(connection, statements):
                return send(connection, statements)
            case Checkin(connection, is_good, is_lasting):
                return self._pool.give(connection, is_good=is_good, is_lasting=is_lasting)
            case _:
                return super().perform(action)

    async def aperform(self, action: Any) -> Any:
        match action:
            case Checkout(is_lasting):
                return await self._async_pool().take(is_lasting=is_lasting)
            case Send(connection, statements, True):
                return await finish(asend(connection, statements))
            case Send(connection, statements):
                return await asend(connection, statements)
            case Checkin(connection, is_good, is_lasting):
                pool = self._async_pool()
                return await pool.give(connection, is_good=is_good, is_lasting=is_lasting)
            case _:
                return await super().aperform(action)

    def _async_pool(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        if loop not in self._async_pools:
            self._async_pools[loop] = AsyncPool(self._aconnect, POOL_SIZE)
        return self._async_pools[loop]

    def close(self) -> None:
        if self._pid == os.getpid():
            self._pool.close()

    async def aclose(self) -> None:
        self.close()
        await self._async_pool().close()


def _as_tuple(request: Any) -> tuple[Statement | Many, ...]:
    if isinstance(request, Whole):
        return request.statements
    return (request,) if isinstance(request, Statement | Many) else tuple(request)


def _no_steps() -> Steps[None]:
    yield from ()


def _describe(conninfo: str) -> str:
    """Host, port and database for people; never the password."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    host = parts.get("host") or "the local socket"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"
