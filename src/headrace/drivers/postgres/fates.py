"""What became of a transaction whose COMMIT got no answer."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg

from headrace.contract.op import Op
from headrace.drivers.postgres import failures
from headrace.drivers.postgres.connecting import Checkin, Connecting, Send
from headrace.drivers.postgres.signing import Signature
from headrace.drivers.relational.sql import Sql, Statement
from headrace.drivers.running import (
    FIRST_DELAY,
    LONGEST_DELAY,
    InDoubt,
    Sleep,
    TryAgain,
    Work,
)
from headrace.errors import OutcomeUnknown

# For so long at least signatures are kept: see ``drop_signatures``.
KEPT_SECONDS = 3000.0


class Identity(NamedTuple):
    """Known before COMMIT is sent, so that its fate can be asked from another connection."""

    xid: str
    signature: Signature
    # By the clock of this process.
    signed_at: float


class LostAtCommit(Exception):
    """The connection broke between COMMIT and its answer."""

    def __init__(self, identity: Identity | None, result: object) -> None:
        super().__init__()
        self.identity = identity
        self.result = result


class Fates(Connecting):
    """Asks the server, and goes on asking for as long as patience lasts."""

    sql: Sql

    def clock(self) -> int | None:
        """The time in tests; None is the server's."""
        raise NotImplementedError  # the store is given it

    def _sign(self, signature: Signature) -> Statement:
        return self.sql.sign(**signature._asdict(), now=self.clock())

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
                fate = yield from self._ask(lost.identity)
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

    def _ask(self, identity: Identity) -> Work[str]:
        """What became of a transaction: committed, aborted, in progress, or unknown."""
        connection = yield from self._checkout()
        is_good = False
        try:
            fate = yield from self._fate(connection, identity.xid)
            if fate in ("committed", "unknown"):
                # A crash may have given the number to somebody else's transaction. Only now:
                # while ours is under way nobody sees what it leaves.
                signature = identity.signature._asdict()
                [found] = yield Send(connection, (self.sql.find_signature(**signature),))
                if found:
                    fate = "committed"
                elif time.monotonic() - identity.signed_at > KEPT_SECONDS:
                    fate = "unknown"
                elif fate == "committed":
                    fate = "aborted"
            is_good = True
            return fate
        finally:
            yield Checkin(connection, is_good)

    def _fate(self, connection: Any, xid: str) -> Work[str]:
        """What the server knows of a transaction with this number."""
        try:
            [[row]] = yield Send(connection, (self.sql.fate(xid=xid),))
        except pg.InvalidParameterValue:
            # "in the future": a crash took the transaction and even its number.
            return "aborted"
        return row["fate"] or "unknown"
