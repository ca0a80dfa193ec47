"""Claims on channels that take turns, in one statement.

Where the channels are not all of the queue's, the client looks first which come next and are
selected: the query language is known here, and not in the database.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headrace.contract.items import Take
from headrace.contract.op import Steps
from headrace.drivers.postgres import handed, limited
from headrace.drivers.postgres.alone import each_alone
from headrace.drivers.postgres.limited import Counting
from headrace.drivers.postgres.sending import DIVIDER
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.queues.selections import sorted_lanes
from headrace.drivers.relational.queues.walks import BOTTOM
from headrace.drivers.relational.sql import Statement, Whole
from headrace.model.channels import selects, selects_all

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# How many channels are looked at in one statement.
SMALL_PAGE = 50
LARGE_PAGE = 1000
# So often all channels are looked at, when others have become ready since.
MOST_WALKS = 3


def claim(
    store: PostgresStore, queue: QueueRow, take: Take, rules: Counting, common: dict[str, Any]
) -> Steps[list[Any]]:
    """The row of a claim that takes turns."""

    def attempt(is_tight: bool, behind: Statement | None) -> Steps[list[Any]]:
        options = {**common, "is_tight": is_tight}
        return _turns(store, queue, take, options, behind)

    return limited.claim(store, queue, take, rules, attempt)


def _turns(
    store: PostgresStore,
    queue: QueueRow,
    take: Take,
    common: dict[str, Any],
    behind: Statement | None,
) -> Steps[list[Any]]:
    select = take.select or ""
    options = {"quantum": take.quantum, "is_strict": queue.settings.serial, **common}
    if selects_all(select):
        return (yield from _claim_from_floor(store, queue, select, options, behind, None))
    selection = yield from store.known.selection(queue, select)
    if selection is not None:
        rows = yield from _claim_from_floor(store, queue, select, options, behind, selection.id)
        if not rows or rows[0]["held"] != "unsorted":
            return rows
        yield from each_alone(sorted_lanes(store.sql, queue, selection))
        rows = yield from _claim(store, options, behind, selection=selection.id)
        if not rows or rows[0]["held"] != "unsorted":
            return rows
        # Somebody else is just doing it, or holds a channel for longer: nobody waits for that.
    return (yield from _claim_where(store, queue, take, options, behind))


def _claim_from_floor(
    store: PostgresStore,
    queue: QueueRow,
    select: str,
    options: dict[str, Any],
    behind: Statement | None,
    selection: int | None,
) -> Steps[list[Any]]:
    """Past turns that nobody has any more, where they are in the way."""
    # What leases that are over have given back stands at its old place.
    floor = None if options["takes_any"] else store.known.turn_floor(queue, select)
    rows = yield from _claim(store, options, behind, selection=selection, floor=floor)
    if rows and rows[0]["held"] == "floored":
        rows = yield from _claim(store, options, behind, selection=selection)
    return rows


def _claim(
    store: PostgresStore,
    options: dict[str, Any],
    behind: Statement | None,
    *,
    selection: int | None = None,
    channels: str | None = None,
    are_all: bool = True,
    floor: int | None = None,
) -> Steps[list[Any]]:
    statement = store.sql.claim_in_turn(
        **options,
        selection=selection,
        channels=channels,
        are_all=are_all,
        floor_turn=floor,
    )
    return limited.rows_of((yield Whole((statement,), behind)))


def _claim_where(
    store: PostgresStore,
    queue: QueueRow,
    take: Take,
    options: dict[str, Any],
    behind: Statement | None,
) -> Steps[list[Any]]:
    """The same for a query that is not registered."""
    select, walks = take.select or "", store.known.walks
    walk = Walk(store, queue, select)
    walks_in_vain = 0
    wanted = walks.width(queue.id, select, take.count, 1 if queue.settings.serial else take.quantum)
    while True:
        yield from walk.go(wanted)
        rows = yield from _claim(
            store,
            options,
            behind,
            channels=",".join(walk.found),
            are_all=walk.is_complete,
        )
        if not rows or rows[0]["held"] != "more":
            givers = handed.channels_in(rows[0]["items"]) if rows else []
            walks.took(queue.id, select, len(set(givers)), len(givers))
            return rows
        if walk.is_complete:
            walks_in_vain += 1
            if walks_in_vain == MOST_WALKS:
                # Channels become ready all the time: then all in one transaction.
                return []
        if walk.is_over:
            walk = Walk(store, queue, select, anew=True)
        wanted *= 4


class Walk:
    """A walk over the channels of a queue, in the order of their turns, to those selected."""

    def __init__(
        self,
        store: PostgresStore,
        queue: QueueRow,
        select: str,
        *,
        anew: bool = False,
    ) -> None:
        self._store = store
        self._queue = queue
        self._select = select
        self.began = BOTTOM if anew else store.known.walks.start(queue.id, select)
        self.found: list[str] = []
        self.is_over = False
        self._first: int | None = None
        self._after = self.began
        self._page = SMALL_PAGE
        self._looked = 0

    @property
    def is_complete(self) -> bool:
        """Whether no channel was passed over, and none is left."""
        return self.is_over and self.began == BOTTOM

    def go(self, count: int) -> Steps[None]:
        """Find so many channels, if there are."""
        walks, place = self._store.known.walks, (self._queue.id, self._select)
        while len(self.found) < count and not self.is_over:
            probably = math.ceil((count - len(self.found)) * walks.spacing(*place))
            limit = min(max(self._page, probably), LARGE_PAGE)
            self._page = min(4 * self._page, LARGE_PAGE)
            statement = self._store.sql.walk_channels(
                queue=self._queue.id, after=self._after, limit=limit
            )
            [[row]] = yield Whole((statement,))
            names = _parts(row["names"], DIVIDER)
            turns, channels = _parts(row["turns"], ","), _parts(row["channels"], ",")
            wanted = [place for place, name in enumerate(names) if selects(self._select, name)]
            if wanted and self._first is None:
                self._first = int(turns[wanted[0]])
            self.found += [channels[place] for place in wanted]
            if names:
                self._after = int(turns[-1])
            self.is_over = len(names) < limit
            self._looked += len(names)
        walks.note(*place, self.began, self._first)
        walks.met(*place, self._looked, len(self.found))


def _parts(text: str | None, divider: str) -> list[str]:
    return [] if text is None else text.split(divider)
