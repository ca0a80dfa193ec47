"""Finds out whether a transaction was committed when its COMMIT got no answer."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import psycopg
from psycopg import errors as pg

from headrace.contract.op import Op
from headrace.drivers.postgres import sqlstate
from headrace.drivers.postgres.commit_markers import CommitMarker
from headrace.drivers.postgres.connections import Checkin, PostgresConnections, Send
from headrace.drivers.runner import (
    FIRST_DELAY,
    MAX_DELAY_SECONDS,
    InDoubt,
    Sleep,
    TryAgain,
    Work,
)
from headrace.drivers.sql_common.statements import Statement, Statements
from headrace.errors import OutcomeUnknown

# How long markers are kept, at least: see ``drop_markers``.
KEPT_SECONDS = 3000.0


class Identity(NamedTuple):
    """Made before COMMIT is sent, so that another connection can ask about the transaction."""

    xid: str
    marker: CommitMarker
    # By the clock of this process.
    marked_at: float


class LostAtCommit(Exception):
    """The connection broke between COMMIT and its answer."""

    def __init__(self, identity: Identity | None, result: object, began: float) -> None:
        super().__init__()
        self.identity = identity
        self.result = result
        # By the clock of this process: patience counts from here.
        self.began = began


class CommitHost(Protocol):
    """What the resolver asks of its store."""

    patience: float

    def clock(self) -> int | None: ...


class CommitResolver:
    """Asks the server what became of a commit, until patience ends."""

    def __init__(
        self, store: CommitHost, connections: PostgresConnections, sql: Statements
    ) -> None:
        self._store = store
        self._connections = connections
        self._sql = sql

    def write_marker(self, marker: CommitMarker) -> Statement:
        return self._sql.write_marker(**marker._asdict(), now=self._store.clock())

    def find_out(self, op: Op[Any], lost: LostAtCommit) -> Work[None]:
        """Return if the transaction was committed; raise ``TryAgain`` if it was not."""
        op.accept()
        unknown = self.unknown(op)
        error = lost.__cause__
        assert error is not None
        if lost.identity is None:
            raise InDoubt(unknown) from error
        give_up = lost.began + self._store.patience
        delay = FIRST_DELAY
        # Ask at least once, unless a silent server has used up the time.
        is_first = not sqlstate.is_silent(error)
        while is_first or time.monotonic() < give_up:
            is_first = False
            try:
                fate = yield from self.ask(lost.identity, give_up)
            except (psycopg.Error, TryAgain):
                fate = "in progress"
            if fate == "committed":
                return
            if fate == "aborted":
                raise TryAgain(sqlstate.unavailable(error, self._connections.address)) from error
            if fate == "unknown":
                break
            yield Sleep(delay)
            delay = min(delay * 2, MAX_DELAY_SECONDS)
        if op.repeatable:
            raise InDoubt(unknown) from error
        raise unknown from error

    def unknown(self, op: Op[Any]) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{op.name!r} may be stored at {self._connections.address} or not: its commit, or the flush of it, "
            "was not answered, and the server cannot say what became of it. Look, or repeat it with "
            "an idempotency key.",
            operation=op.name,
        )

    def ask(self, identity: Identity, give_up: float | None = None) -> Work[str]:
        """The state of a transaction: committed, aborted, in progress, or unknown."""
        connection = yield from self._connections.checkout(give_up)
        is_good = False
        try:
            fate = yield from self._fate(connection, identity.xid)
            if fate in ("committed", "unknown"):
                # After a crash the number may belong to another transaction. Check the marker only
                # now: no other transaction sees it while ours is under way.
                marker = identity.marker._asdict()
                [found] = yield Send(connection, (self._sql.find_marker(**marker),))
                if found:
                    fate = "committed"
                elif time.monotonic() - identity.marked_at > KEPT_SECONDS:
                    fate = "unknown"
                elif fate == "committed":
                    fate = "aborted"
            is_good = True
            return fate
        finally:
            yield Checkin(connection, is_good)

    def _fate(self, connection: Any, xid: str) -> Work[str]:
        """What the server says of a transaction with this number."""
        try:
            [[row]] = yield Send(connection, (self._sql.transaction_status(xid=xid),))
        except pg.InvalidParameterValue:
            # "in the future": a crash lost the transaction and even its number.
            return "aborted"
        return row["fate"] or "unknown"
