"""Claims that were answered before they were on the disk.

Whatever is brought there behind them takes them with it. So whoever waits for the disk asks in the
same statement which of them the server still knows, and from then on those are secured.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

from headrace.drivers.postgres.sending import DIVIDER
from headrace.drivers.relational.sql import Sql, Statement

T = TypeVar("T")

# Beyond that the oldest are forgotten: whoever begins with one has to ask for it.
MOST = 100


class Loose(NamedTuple):
    """A claim, by its token and one of its items."""

    token: str
    queue: int
    item: int


class LooseClaims:
    """Those of one client; threads share it."""

    def __init__(self) -> None:
        self._loose: dict[str, Loose] = {}
        self._secured: dict[str, bool] = {}

    def add(self, claim: Loose) -> None:
        """A claim was answered just now."""
        _keep(self._loose, claim.token, claim)

    def is_secured(self, token: str) -> bool:
        """Whether it is on the disk; said once."""
        return self._secured.pop(token, False)

    def flush(self, sql: Sql) -> Statement:
        """Waits for the disk, and asks for all of them."""
        claims = self._loose.copy()
        return _secure(sql, claims.values()) if claims else sql.flush()

    def secure(self, sql: Sql, claim: Loose) -> Statement:
        """The same with one that may not be among them."""
        return _secure(sql, {**self._loose.copy(), claim.token: claim}.values())

    def note(self, standing: str | None, asked: Statement) -> Collection[str]:
        """What was the answer; those that stand."""
        tokens = set(standing.split(DIVIDER)) if standing else set()
        for token in asked.parameters.get("tokens", "").split(DIVIDER):
            if self._loose.pop(token, None) is not None and token in tokens:
                _keep(self._secured, token, True)
        return tokens


def _secure(sql: Sql, claims: Collection[Loose]) -> Statement:
    return sql.secure_claims(
        queues=",".join(str(claim.queue) for claim in claims),
        items=",".join(str(claim.item) for claim in claims),
        tokens=DIVIDER.join(claim.token for claim in claims),
    )


def _keep(kept: dict[str, T], token: str, value: T) -> None:
    kept[token] = value
    if len(kept) > MOST:
        kept.pop(next(iter(kept.copy())), None)
