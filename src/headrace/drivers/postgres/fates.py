"""What became of a transaction whose COMMIT got no answer."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg import errors as pg

from headrace.contract.op import Op
from headrace.drivers.postgres import failures
from headrace.drivers.postgres.connecting import Checkin, Connecting, Send
from headrace.drivers.relational.sql import Statement
from headrace.drivers.running import (
    FIRST_DELAY,
    LONGEST_DELAY,
    InDoubt,
    Sleep,
    TryAgain,
    Work,
)
from headrace.errors import OutcomeUnknown

IDENTIFY = Statement(
    "identify",
    "select pg_current_xact_id()::text as xid, pg_postmaster_start_time()::text as server",
    {},
)
"""Known before COMMIT is sent, so that its fate can be asked from another connection."""


class LostAtCommit(Exception):
    """The connection broke between COMMIT and its answer."""

    def __init__(
        self, identity: dict[str, str] | None, evidence: Statement | None, result: object
    ) -> None:
        super().__init__()
        self.identity = identity
        self.evidence = evidence
        self.result = result


class Fates(Connecting):
    """Asks the server, and goes on asking for as long as patience lasts."""

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
