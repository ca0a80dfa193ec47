"""Which items of a queue in SQL are next, with channels and without."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contract.items import ClaimRequest
from headrace.contract.op import Steps
from headrace.drivers.sql_common.limits.admission import Admission, channels_of
from headrace.drivers.sql_common.limits.parked_channels import ParkedChannels
from headrace.drivers.sql_common.queues.ready_channels import ReadyChannels, allocate_positions
from headrace.drivers.sql_common.queues.rows import QueueRow, item_of
from headrace.drivers.sql_common.queues.scan_hints import BOTTOM
from headrace.drivers.sql_common.queues.selections import (
    UNSORTED,
    all_lanes,
    find_selection,
    sorted_lanes,
)
from headrace.drivers.sql_common.statements import Many, NoReply, Row
from headrace.model.queues.channels import Sharing, selects, selects_all
from headrace.model.queues.items import ItemState

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

# How many channels, or items in line, one statement reads.
SMALL_PAGE = 50
LARGE_PAGE = 1000
# Before every place in line.
FIRST = -(2**62)


class Candidate(NamedTuple):
    """The items for a claim, and the channels that had their turn."""

    items: Sequence[ItemState]
    served: Sequence[int] = ()
    # When the next delay of a channel ends.
    next_at: int | None = None
    # The parked channels that the claim scanned, and those that it parks.
    parked: ParkedChannels | None = None


class ClaimCandidates:
    """Selects the items for a claim, and locks them."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def next_items(
        self, queue: QueueRow, request: ClaimRequest, count: int, admission: Admission | None
    ) -> Steps[Candidate]:
        """The next items for a claim, as far as limits admit them."""
        delayed: dict[str, int] = {}
        while True:
            scan = yield from self._scan(queue, request, delayed, admission)
            chosen = yield from self._undelayed_items(scan, request, count)
            if not queue.info.has_channels:
                return chosen
            # Read after the items are locked: an operation that returns items to the line and
            # delays their channel does both in one transaction.
            delayed = yield from self._delayed_channels(queue)
            if not any(item.key_values in delayed for item in chosen.items):
                return chosen._replace(next_at=min(delayed.values(), default=None))
            if admission is not None:
                admission.start_again()

    def _undelayed_items(
        self, scan: ChannelScan, request: ClaimRequest, count: int
    ) -> Steps[Candidate]:
        """The next items that are not in channels known to be delayed."""
        queue = scan.queue
        if request.select is None and not queue.settings.serial and not scan.delayed:
            found = yield from self._first(scan, count)
            if found is not None:
                return Candidate([item_of(row, queue.name) for row in found])
        if request.select is not None and request.order == "fair":
            return (yield from self._in_turn(scan, request.quantum, count))
        return (yield from self._in_line(scan, request.select, count))

    def _first(self, scan: ChannelScan, count: int) -> Steps[Sequence[Row] | None]:
        """The first items in line, whatever their channels; None if limits depend on channels."""
        queue, admission = scan.queue, scan.admission
        if admission is None:
            found: Sequence[Row] = yield self.sql.first_items(queue=queue.id, limit=count)
            return found
        if queue.info.has_channels:
            return None
        if None not in (yield from admission.open([None])):
            return []
        free = min(admission.fits(None), count)
        found = yield self.sql.first_items(queue=queue.id, limit=free)
        if any(row["key_values"] is not None for row in found):
            # The queue has just got its first channel.
            return None
        admission.acquire(None, len(found))
        if free == len(found) < count:
            # This notes which limit has no capacity for the rest.
            admission.fits(None)
        return found

    def _delayed_channels(self, queue: QueueRow) -> Steps[dict[str, int]]:
        """The delayed channels, and the end of each delay."""
        rows = yield self.sql.delayed_channels(queue=queue.id, now=queue.now)
        return {row["key_values"]: row["until"] for row in rows}

    def had_their_turn(self, queue: QueueRow, chosen: Candidate) -> Steps[None]:
        """Remove the turns of channels that are empty now, and move the others behind the rest."""
        if self._context.traits.retires_channels and chosen.served:
            yield from ReadyChannels(self.sql).retire_known(chosen.served)
        elif self._context.traits.retires_channels:
            names = {item.key_values for item in chosen.items} - {None}
            yield from ReadyChannels(self.sql).retire((queue, name) for name in names if name)
        if chosen.served:
            turns = yield from allocate_positions(self.sql, len(chosen.served))
            moved = zip(chosen.served, turns, strict=True)
            rows = [{"channel": channel, "turn": turn} for channel, turn in moved]
            yield NoReply((Many.of(self.sql.move_turns, rows),))

    def _in_turn(self, scan: ChannelScan, quantum: int, count: int) -> Steps[Candidate]:
        sharing = Sharing(count, quantum, is_strict=scan.queue.settings.serial)
        found: list[ItemState] = []
        while sharing.left:
            some = yield from self._next_channels(scan, sharing.width)
            if not some:
                break
            found += yield from self._ask_channels(scan, sharing, some, sharing.quantum, found)
        if self._context.scan_hints is not None and scan.select is not None:
            self._context.scan_hints.note(scan.queue.id, scan.select, scan.began, scan.first)
            if sharing.left and scan.began != BOTTOM:
                # Not enough: then the scan starts again and skips nothing.
                return (yield from self._in_turn(scan.from_bottom(), quantum, count))
        while sharing.left and sharing.hungry:
            found += yield from self._ask_channels(
                scan, sharing, sharing.hungry, sharing.share, found
            )
        return Candidate(found, [scan.ids[name] for name in sharing.served], parked=scan.parked)

    def _scan(
        self,
        queue: QueueRow,
        request: ClaimRequest,
        delayed: Mapping[str, int],
        admission: Admission | None,
    ) -> Steps[ChannelScan]:
        select = request.select
        if select is None or request.order != "fair":
            return ChannelScan(queue, select, delayed, admission)
        parked: ParkedChannels | None = None
        open_lanes: list[int] = []
        if self._context.traits.parks_channels and admission is not None:
            parked = ParkedChannels(
                self.sql, queue, select, has_parking_lanes=admission.has_parking_lanes
            )
            open_lanes = yield from parked.lanes()
        if self._context.traits.sorts_channels and not selects_all(select):
            selection = yield from find_selection(self.sql, queue, select)
            if selection is not None:
                lanes = yield from sorted_lanes(self.sql, queue, selection)
                return ChannelScan(
                    queue, None, delayed, admission, (*lanes, *open_lanes), parked=parked
                )
        lanes = yield from all_lanes(self.sql, queue)
        lanes += open_lanes
        if selects_all(select):
            return ChannelScan(queue, None, delayed, admission, lanes, parked=parked)
        began = BOTTOM
        if self._context.scan_hints is not None and not open_lanes:
            # A channel that was parked may have a turn from long ago.
            began = self._context.scan_hints.start(queue.id, select)
        return ChannelScan(queue, select, delayed, admission, lanes, began, parked)

    def _ask_channels(
        self,
        scan: ChannelScan,
        sharing: Sharing,
        channels: Sequence[str],
        each: int,
        chosen: Sequence[ItemState],
    ) -> Steps[list[ItemState]]:
        """The next items of each channel, at most ``each``, without those ``chosen`` before."""
        asked: Sequence[str] = channels
        limit = sharing.left
        if scan.admission is not None:
            # Limits may not admit some of their items: then other channels give more.
            open_ones = yield from scan.admission.open(channels)
            asked = [name for name in channels if name in open_ones]
            limit = each * len(asked)
            if scan.parked is not None and len(asked) < len(channels):
                for name in channels:
                    if name not in open_ones:
                        scan.parked.note(scan.ids[name], scan.admission.parking_lane_of(name))
        known = set(asked)
        rows: Sequence[Any] = ()
        if asked:
            rows = yield self.sql.channel_items(
                channels=[scan.ids[name] for name in asked],
                each=each,
                limit=limit,
                but=[item.id for item in chosen if item.key_values in known],
            )
        ordered = sorted(rows, key=lambda row: (row["turn"], row["rank"], row["position"]))
        if scan.admission is not None:
            ordered = scan.admission.admit(ordered, sharing.left)
        items = [item_of(row, scan.queue.name) for row in ordered]
        sharing.note(channels, each, Counter(item.key_values or "" for item in items))
        return items

    def _next_channels(self, scan: ChannelScan, count: int) -> Steps[list[str]]:
        """The next channels in the order of turns that are selected and may have items."""
        while len(scan.waiting) < count and not scan.is_over:
            limit = scan.next_page(count)
            lanes = scan.open_lanes()
            pages = yield tuple(
                self.sql.next_channels(
                    queue=scan.queue.id, lane=lane, after=scan.after, limit=limit
                )
                for lane in lanes
            )
            page = merged(pages, limit)
            if page:
                scan.after = page[-1]["turn"]
            scan.is_over = len(page) < limit
            strays = scan.strays(page, lanes, pages)
            selected = [
                row
                for row in page
                if row["channel"] not in strays and scan.selects(row["key_values"])
            ]
            if selected and scan.first is None:
                scan.first = selected[0]["turn"]
            rows = [row for row in selected if row["key_values"] not in scan.delayed]
            if scan.queue.settings.serial and rows:
                free = yield from self._free_channels([row["channel"] for row in rows])
                rows = [row for row in rows if row["channel"] in free]
            scan.ids |= {row["key_values"]: row["channel"] for row in rows}
            scan.waiting.extend(row["key_values"] for row in rows)
        return [scan.waiting.popleft() for _ in range(min(count, len(scan.waiting)))]

    def _free_channels(self, channels: Sequence[int]) -> Steps[Collection[int]]:
        """Which of the strict channels may give an item, only to this claim."""
        # In this order, so that claims from before we had the lock are seen.
        locked, blocked = yield (
            self.sql.lock_turns(channels=channels),
            self.sql.blocked_channels(channels=channels),
        )
        return {row["channel"] for row in locked} - {row["channel"] for row in blocked}

    def _in_line(self, scan: ChannelScan, select: str | None, count: int) -> Steps[Candidate]:
        queue, admission = scan.queue, scan.admission
        found: list[ItemState] = []
        used: set[int] = set()
        rank = position = FIRST
        limit = max(count, SMALL_PAGE)
        while len(found) < count:
            page = yield self.sql.line_items(
                queue=queue.id, rank=rank, position=position, limit=limit
            )
            wanted = [
                row
                for row in page
                if _is_selected(row, select) and row["key_values"] not in scan.delayed
            ]
            if queue.settings.serial:
                wanted = yield from self._one_of_each(wanted, used)
            if admission is not None and wanted:
                open_ones = yield from admission.open(channels_of(wanted))
                wanted = [row for row in wanted if row["key_values"] in open_ones]
            while wanted and len(found) < count:
                most = count - len(found)
                if admission is not None:
                    wanted = [row for row in wanted if admission.fits(row["key_values"])]
                some, wanted = wanted[:most], wanted[most:]
                rows: Sequence[Any] = yield self.sql.pending_items(ids=[row["id"] for row in some])
                if admission is not None:
                    rows = admission.admit(rows, most)
                found += [item_of(row, queue.name) for row in rows]
            if len(page) < limit:
                break
            rank, position = page[-1]["rank"], page[-1]["position"]
            limit = LARGE_PAGE
        return Candidate(found)

    def _one_of_each(self, rows: Sequence[Any], used: set[int]) -> Steps[list[Any]]:
        """The first item of each strict channel that may give one, and all items in no channel."""
        channels = sorted({row["channel"] for row in rows} - used - {0})
        free = (yield from self._free_channels(channels)) if channels else ()
        wanted = []
        for row in rows:
            channel = row["channel"]
            if channel == 0 or (channel in free and channel not in used):
                wanted.append(row)
            if channel != 0:
                used.add(channel)
        return wanted


class ChannelScan:
    """A scan over the channels of a queue, in the order of their turns."""

    def __init__(
        self,
        queue: QueueRow,
        select: str | None,
        delayed: Mapping[str, int],
        admission: Admission | None,
        lanes: Sequence[int] = (UNSORTED,),
        began: int = BOTTOM,
        parked: ParkedChannels | None = None,
    ) -> None:
        self.queue = queue
        self.delayed = delayed
        self.admission = admission
        self.lanes = lanes
        self.select = select
        self.parked = parked
        self.began = self.after = began
        self.first: int | None = None
        self.is_over = not lanes
        self.waiting: deque[str] = deque()
        self.ids: dict[str, int] = {}
        self._page = SMALL_PAGE

    def selects(self, key_values: str) -> bool:
        """Whether a channel that was met is selected."""
        return self.select is None or selects(self.select, key_values)

    def from_bottom(self) -> ChannelScan:
        """The same scan from the first turn."""
        if self.admission is not None:
            self.admission.start_again()
        if self.parked is not None:
            self.parked.start_again()
        return ChannelScan(
            self.queue, self.select, self.delayed, self.admission, self.lanes, parked=self.parked
        )

    def open_lanes(self) -> Sequence[int]:
        """The ``lanes`` that may have channels with capacity."""
        if self.parked is None or self.admission is None:
            return self.lanes
        return self.parked.still_open(self.lanes, self.admission.has_free_slots)

    def strays(
        self, page: Sequence[Row], lanes: Sequence[int], pages: Sequence[Sequence[Row]]
    ) -> Collection[int]:
        """Parked channels that are not selected."""
        return () if self.parked is None else self.parked.strays(page, lanes, pages)

    def next_page(self, count: int) -> int:
        """How many channels to read: more each time, since few seem to be selected."""
        limit = min(max(self._page, count), LARGE_PAGE)
        self._page = min(4 * self._page, LARGE_PAGE)
        return limit


def merged(pages: Sequence[Sequence[Row]], limit: int) -> Sequence[Row]:
    """The first channels of several pages, by their turns."""
    if len(pages) == 1:
        return pages[0]
    return sorted((row for page in pages for row in page), key=itemgetter("turn"))[:limit]


def _is_selected(row: Any, select: str | None) -> bool:
    name = row["key_values"]
    return select is None or (name is not None and selects(select, name))
