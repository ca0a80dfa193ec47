"""Claims on channels that take turns, in one statement.

If the query selects only some of the channels, the client first reads which selected channels
come next: only Python evaluates queries, the database does not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headrace.contract.items import ClaimRequest
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath import claim_codec, limited_claim
from headrace.drivers.postgres.fastpath.answers import ClaimAnswer
from headrace.drivers.postgres.fastpath.autocommit import autocommit_each
from headrace.drivers.postgres.fastpath.limited_claim import Counting
from headrace.drivers.postgres.round_trip import DIVIDER
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.queues.scan_hints import BOTTOM
from headrace.drivers.sql_common.queues.selections import sorted_lanes
from headrace.drivers.sql_common.statements import Autocommit, Statement
from headrace.model.queues.channels import selects, selects_all

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# How many channels one statement reads.
SMALL_PAGE = 50
LARGE_PAGE = 1000
# How often the client reads all channels, if others have become ready since.
MAX_SCANS = 3


def claim(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    rules: Counting,
    common: dict[str, Any],
) -> Steps[list[Any]]:
    """The row of a claim in turn."""

    def attempt(is_tight: bool, behind: Statement | None) -> Steps[list[Any]]:
        options = {**common, "is_tight": is_tight}
        return _turns(store, queue, request, options, behind)

    return limited_claim.claim(store, queue, request, rules, attempt)


def _turns(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    common: dict[str, Any],
    behind: Statement | None,
) -> Steps[list[Any]]:
    select = request.select or ""
    options = {"quantum": request.quantum, "is_strict": queue.info.settings.serial, **common}
    if selects_all(select):
        return (yield from _claim_from_floor(store, queue, select, options, behind, None))
    selection = yield from store.queue_cache.selection(queue, select)
    if selection is not None:
        rows = yield from _claim_from_floor(store, queue, select, options, behind, selection.id)
        if not rows or rows[0]["answer"] != ClaimAnswer.UNSORTED:
            return rows
        yield from autocommit_each(sorted_lanes(store.sql, queue, selection))
        rows = yield from _claim(store, options, behind, selection=selection.id)
        if not rows or rows[0]["answer"] != ClaimAnswer.UNSORTED:
            return rows
        # Another client is sorting them, or has a channel locked: do not wait for it.
    return (yield from _claim_where(store, queue, request, options, behind))


def _claim_from_floor(
    store: PostgresStore,
    queue: QueueRow,
    select: str,
    options: dict[str, Any],
    behind: Statement | None,
    selection: int | None,
) -> Steps[list[Any]]:
    """Claim above the floor, to skip turns that no channel has any longer."""
    # Items whose leases were ended return to their old positions, perhaps below the floor.
    floor = None if options["ignores_expired"] else store.queue_cache.turn_floor(queue, select)
    rows = yield from _claim(store, options, behind, selection=selection, floor=floor)
    if rows and rows[0]["answer"] == ClaimAnswer.FLOORED:
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
    return limited_claim.rows_of((yield Autocommit((statement,), behind)))


def _claim_where(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    options: dict[str, Any],
    behind: Statement | None,
) -> Steps[list[Any]]:
    """Claim by a query that is not registered."""
    select, hints = request.select or "", store.queue_cache.scan_hints
    cursor = ChannelCursor(store, queue, select)
    vain_scans = 0
    wanted = hints.width(
        queue.id, select, request.count, 1 if queue.info.settings.serial else request.quantum
    )
    while True:
        yield from cursor.go(wanted)
        rows = yield from _claim(
            store,
            options,
            behind,
            channels=",".join(cursor.found),
            are_all=cursor.is_complete,
        )
        if not rows or rows[0]["answer"] != ClaimAnswer.MORE:
            givers = claim_codec.channels_in(rows[0]["items"]) if rows else []
            hints.note_claim(queue.id, select, len(set(givers)), len(givers))
            return rows
        if cursor.is_complete:
            vain_scans += 1
            if vain_scans == MAX_SCANS:
                # Channels keep becoming ready: the general path does it in one transaction.
                return []
        if cursor.is_over:
            cursor = ChannelCursor(store, queue, select, reload=True)
        wanted *= 4


class ChannelCursor:
    """Reads the channels of a queue in the order of their turns and finds those selected."""

    def __init__(
        self,
        store: PostgresStore,
        queue: QueueRow,
        select: str,
        *,
        reload: bool = False,
    ) -> None:
        self._store = store
        self._queue = queue
        self._select = select
        self.began = BOTTOM if reload else store.queue_cache.scan_hints.start(queue.id, select)
        self.found: list[str] = []
        self.is_over = False
        self._first: int | None = None
        self._after = self.began
        self._page = SMALL_PAGE
        self._scanned = 0

    @property
    def is_complete(self) -> bool:
        """Whether it has read all channels and skipped none."""
        return self.is_over and self.began == BOTTOM

    def go(self, count: int) -> Steps[None]:
        """Find up to ``count`` more channels."""
        hints, place = self._store.queue_cache.scan_hints, (self._queue.id, self._select)
        while len(self.found) < count and not self.is_over:
            probably = math.ceil((count - len(self.found)) * hints.spacing(*place))
            limit = min(max(self._page, probably), LARGE_PAGE)
            self._page = min(4 * self._page, LARGE_PAGE)
            statement = self._store.sql.scan_channels(
                queue=self._queue.id, after=self._after, limit=limit
            )
            [[row]] = yield Autocommit((statement,), reads=True)
            names = _parts(row["names"], DIVIDER)
            turns, channels = _parts(row["turns"], ","), _parts(row["channels"], ",")
            wanted = [place for place, name in enumerate(names) if selects(self._select, name)]
            if wanted and self._first is None:
                self._first = int(turns[wanted[0]])
            self.found += [channels[place] for place in wanted]
            if names:
                self._after = int(turns[-1])
            self.is_over = len(names) < limit
            self._scanned += len(names)
        hints.note(*place, self.began, self._first)
        hints.note_scan(*place, self._scanned, len(self.found))


def _parts(text: str | None, divider: str) -> list[str]:
    return [] if text is None else text.split(divider)
