"""Claims on channels that take turns, in one statement.

Where the channels are not all of the queue's, the client looks first which come next and are
selected: the query language is known here, and not in the database.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.items import Take
from headrace.contract.op import Steps
from headrace.drivers.relational.queues.rows import QueueRow, item_of
from headrace.drivers.relational.sql import Whole
from headrace.model.channels import selects, selects_all
from headrace.model.items import ItemState

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# How many channels are looked at in one statement.
SMALL_PAGE = 50
LARGE_PAGE = 1000
# How long channels that are not selected are passed over without another look.
WALK_SECONDS = 1.0
MOST_WALKS = 1000
# Before every turn.
BOTTOM = -1


class Walks:
    """How far channels that a query does not select reach, from the bottom of the turns.

    Their key-values never change, and what comes to stand in line stands behind them; so they
    need not be looked at by every claim. Only somebody who took a turn long before COMMIT may
    stand among them: they are looked at again every second, and whenever it is not enough.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[float, int]] = {}

    def start(self, queue: int, select: str) -> int:
        """The turn behind which selected channels begin."""
        until, turn = self._known.get((queue, select), (0.0, BOTTOM))
        return turn if time.monotonic() < until else BOTTOM

    def note(self, queue: int, select: str, began: int, first: int | None) -> None:
        """A walk that began behind a turn has come to the first channel that is selected."""
        if first is None:
            self._known.pop((queue, select), None)
            return
        until, _ = self._known.get((queue, select), (0.0, BOTTOM))
        if began == BOTTOM:
            until = time.monotonic() + WALK_SECONDS
        if len(self._known) > MOST_WALKS:
            self._known.clear()
        self._known[queue, select] = (until, first - 1)


def claim(
    store: PostgresStore, queue: QueueRow, take: Take, common: dict[str, Any]
) -> Steps[list[Any]]:
    """The rows of a claim that takes turns."""
    select = take.select or ""
    options = {"quantum": take.quantum, "is_strict": queue.settings.serial}
    if selects_all(select):
        statement = store.sql.claim_in_turn(**common, **options, channels=None, are_all=True)
        [rows] = yield Whole((statement,))
        return list(rows)
    walk = Walk(store, queue, select)
    wanted = take.count
    while True:
        yield from walk.go(wanted)
        statement = store.sql.claim_in_turn(
            **common,
            **options,
            channels=",".join(map(str, walk.found)),
            are_all=walk.is_over and walk.began == BOTTOM,
        )
        [rows] = yield Whole((statement,))
        if not rows or rows[0]["held"] != "more":
            return list(rows)
        if walk.is_over:
            walk = Walk(store, queue, select, anew=True)
        wanted *= 4


class Walk:
    """A walk over the channels of a queue, in the order of their turns, to those selected."""

    def __init__(
        self, store: PostgresStore, queue: QueueRow, select: str, *, anew: bool = False
    ) -> None:
        self._store = store
        self._queue = queue
        self._select = select
        self.began = BOTTOM if anew else store.known.walks.start(queue.id, select)
        self.found: list[int] = []
        self.is_over = False
        self._first: int | None = None
        self._after = self.began
        self._page = SMALL_PAGE

    def go(self, count: int) -> Steps[None]:
        """Find so many channels, if there are."""
        while len(self.found) < count and not self.is_over:
            limit = min(max(self._page, count), LARGE_PAGE)
            self._page = min(4 * self._page, LARGE_PAGE)
            statement = self._store.sql.next_channels(
                queue=self._queue.id, after=self._after, limit=limit
            )
            [page] = yield Whole((statement,))
            for row in page:
                if selects(self._select, row["key_values"]):
                    if self._first is None:
                        self._first = row["turn"]
                    self.found.append(row["channel"])
            if page:
                self._after = page[-1]["turn"]
            self.is_over = len(page) < limit
        self._store.known.walks.note(self._queue.id, self._select, self.began, self._first)


def items_of(queue: QueueRow, rows: Sequence[Any]) -> list[ItemState]:
    """Claimed items in the order in which their channels gave them."""
    order = {int(id): place for place, id in enumerate((rows[0]["line"] or "").split(",")) if id}
    items = [item_of(row, queue.name) for row in rows if row["id"] is not None]
    return sorted(items, key=lambda item: order[item.id])
