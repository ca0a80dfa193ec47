"""Claims that were answered before they were flushed.

Any later flush of the client makes them durable, too. So each flush asks in the same statement
which of them the server still has. From then on those are confirmed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headrace.contract.items import Confirm
from headrace.contract.op import Op, Steps
from headrace.drivers.postgres.round_trip import DIVIDER
from headrace.drivers.sql_common.statements import Autocommit, Statement, Statements

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

T = TypeVar("T")

# Beyond this number the oldest are forgotten: each then needs a statement for its confirmation.
MAX_CLAIMS = 100


class UnflushedClaim(NamedTuple):
    """A claim, by its token and one of its items."""

    token: str
    queue: int
    item: int


class UnflushedClaims:
    """The unflushed claims of one client, shared by its threads."""

    def __init__(self) -> None:
        self._unflushed: dict[str, UnflushedClaim] = {}
        self._confirmed: dict[str, bool] = {}

    def add(self, claim: UnflushedClaim) -> None:
        """Add a claim that was just answered."""
        _keep(self._unflushed, claim.token, claim)

    def is_confirmed(self, token: str) -> bool:
        """Whether a flush has confirmed a claim; True only once."""
        return self._confirmed.pop(token, False)

    def flush(self, sql: Statements) -> Statement:
        """The statement that flushes and checks all of them."""
        claims = self._unflushed.copy()
        return _confirm(sql, claims.values()) if claims else sql.flush()

    def confirm(self, sql: Statements, claim: UnflushedClaim) -> Statement:
        """The statement that flushes and checks all of them and this one."""
        return _confirm(sql, {**self._unflushed.copy(), claim.token: claim}.values())

    def note(self, confirmed: str | None, asked: Statement) -> Collection[str]:
        """Note the answer to such a statement; returns the confirmed tokens."""
        tokens = set(confirmed.split(DIVIDER)) if confirmed else set()
        for token in asked.parameters.get("tokens", "").split(DIVIDER):
            if self._unflushed.pop(token, None) is not None and token in tokens:
                _keep(self._confirmed, token, True)
        return tokens


def confirm_later(store: PostgresStore, claim: UnflushedClaim) -> Confirm:
    """Note an unflushed claim; returns a function that builds the operation to confirm it."""
    claims = store.unflushed
    claims.add(claim)

    def confirm(item: int) -> Op[bool] | None:
        if claims.is_confirmed(claim.token):
            return None

        def steps() -> Steps[bool]:
            statement = claims.confirm(store.sql, claim._replace(item=item))
            [[row]] = yield Autocommit((statement,))
            return claim.token in claims.note(row["confirmed"], statement)

        return Op("queues.confirm", steps, repeatable=True)

    return confirm


def _confirm(sql: Statements, claims: Collection[UnflushedClaim]) -> Statement:
    return sql.confirm_claims(
        queues=",".join(str(claim.queue) for claim in claims),
        items=",".join(str(claim.item) for claim in claims),
        tokens=DIVIDER.join(claim.token for claim in claims),
    )


def _keep(kept: dict[str, T], token: str, value: T) -> None:
    kept[token] = value
    if len(kept) > MAX_CLAIMS:
        kept.pop(next(iter(kept.copy())), None)
