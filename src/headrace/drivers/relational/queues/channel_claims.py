"""Which items of a queue in SQL are next, with channels and without."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from headrace.contract.items import Take
from headrace.contract.op import Steps
from headrace.drivers.relational.queues.admission import Admission, channels_of
from headrace.drivers.relational.queues.channels import ChannelLooks
from headrace.drivers.relational.queues.filing import Filing
from headrace.drivers.relational.queues.rows import QueueRow, item_of
from headrace.drivers.relational.queues.selections import (
    UNSORTED,
    SelectionLooks,
    all_lanes,
    find_selection,
    sorted_lanes,
)
from headrace.drivers.relational.queues.turning import Channels, take_turns
from headrace.drivers.relational.queues.walks import BOTTOM, Walks
from headrace.drivers.relational.sql import Finally, Many, Row
from headrace.model.channels import Sharing, selects, selects_all
from headrace.model.items import ItemState

# How many channels, or items in line, are looked at in one statement.
SMALL_PAGE = 50
LARGE_PAGE = 1000
# Before every place in line.
FIRST = -(2**62)


class Chosen(NamedTuple):
    """What a claim gets, and the channels whose turn that was."""

    items: Sequence[ItemState]
    served: Sequence[int] = ()
    # When the next channel that is held is so no longer.
    next_at: int | None = None
    # Channels that wait for room.
    filing: Filing | None = None


class ChannelClaims(ChannelLooks, SelectionLooks):
    """The choice of items for a claim. What is chosen is locked."""

    # Whether channels are put into lanes in the transaction of a claim. It locks them for as long
    # as that lasts, which is nothing where there is one writer at a time.
    sorts = False
    # How far it is to the channels that a query selects, where somebody remembers it.
    walks: Walks | None = None

    def next_items(
        self, queue: QueueRow, take: Take, count: int, admission: Admission | None
    ) -> Steps[Chosen]:
        """The next items for a claim, as far as limits let them through."""
        held: dict[str, int] = {}
        while True:
            walk = yield from self._walk(queue, take, held, admission)
            chosen = yield from self._but(walk, take, count)
            if not queue.info.has_channels:
                return chosen
            # Read when we have the items: whoever puts items back in line and holds their channel
            # does both at once.
            held = yield from self._held_channels(queue)
            if not any(item.key_values in held for item in chosen.items):
                return chosen._replace(next_at=min(held.values(), default=None))
            if admission is not None:
                admission.start_again()

    def _but(self, walk: Walk, take: Take, count: int) -> Steps[Chosen]:
        """The next items that are not in channels which are known to be held."""
        queue = walk.queue
        if take.select is None and not queue.settings.serial and not walk.held:
            found = yield from self._first(walk, count)
            if found is not None:
                return Chosen([item_of(row, queue.name) for row in found])
        if take.select is not None and take.order == "fair":
            return (yield from self._in_turn(walk, take.quantum, count))
        return (yield from self._in_line(walk, take.select, count))

    def _first(self, walk: Walk, count: int) -> Steps[Sequence[Row] | None]:
        """The first items in line, whatever their channels, unless limits tell those apart."""
        queue, admission = walk.queue, walk.admission
        if admission is None:
            found: Sequence[Row] = yield self.sql.first_items(queue=queue.id, limit=count)
            return found
        if queue.info.has_channels:
            return None
        if None not in (yield from admission.open([None])):
            return []
        room = min(admission.fits(None), count)
        found = yield self.sql.first_items(queue=queue.id, limit=room)
        if any(row["key_values"] is not None for row in found):
            # The queue has just got its first channel.
            return None
        admission.take(None, len(found))
        if room == len(found) < count:
            # What left no room for the rest is noted.
            admission.fits(None)
        return found

    def _held_channels(self, queue: QueueRow) -> Steps[dict[str, int]]:
        """Channels that are held, and until when."""
        rows = yield self.sql.held_channels(queue=queue.id, now=queue.now)
        return {row["key_values"]: row["until"] for row in rows}

    def had_their_turn(self, queue: QueueRow, chosen: Chosen) -> Steps[None]:
        """Let channels that are empty now stand nowhere, and others that gave behind the rest."""
        if self.retires and chosen.served:
            yield from Channels(self.sql).retire_known(chosen.served)
        elif self.retires:
            names = {item.key_values for item in chosen.items} - {None}
            yield from Channels(self.sql).retire((queue, name) for name in names if name)
        if chosen.served:
            turns = yield from take_turns(self.sql, len(chosen.served))
            moved = zip(chosen.served, turns, strict=True)
            rows = [{"channel": channel, "turn": turn} for channel, turn in moved]
            yield Finally((Many.of(self.sql.move_turns, rows),))

    def _in_turn(self, walk: Walk, quantum: int, count: int) -> Steps[Chosen]:
        sharing = Sharing(count, quantum, is_strict=walk.queue.settings.serial)
        found: list[ItemState] = []
        while sharing.left:
            some = yield from self._next_channels(walk, sharing.width)
            if not some:
                break
            found += yield from self._ask_channels(walk, sharing, some, sharing.quantum, found)
        if self.walks is not None and walk.select is not None:
            self.walks.note(walk.queue.id, walk.select, walk.began, walk.first)
            if sharing.left and walk.began != BOTTOM:
                # Not enough: then nothing is passed over.
                return (yield from self._in_turn(walk.from_bottom(), quantum, count))
        while sharing.left and sharing.hungry:
            found += yield from self._ask_channels(
                walk, sharing, sharing.hungry, sharing.share, found
            )
        return Chosen(found, [walk.ids[name] for name in sharing.served], filing=walk.filing)

    def _walk(
        self, queue: QueueRow, take: Take, held: Mapping[str, int], admission: Admission | None
    ) -> Steps[Walk]:
        select = take.select
        if select is None or take.order != "fair":
            return Walk(queue, select, held, admission)
        filing: Filing | None = None
        open_files: list[int] = []
        if self.files and admission is not None:
            filing = Filing(self.sql, queue, select, has_files=admission.has_files)
            open_files = yield from filing.lanes()
        if self.sorts and not selects_all(select):
            selection = yield from find_selection(self.sql, queue, select)
            if selection is not None:
                lanes = yield from sorted_lanes(self.sql, queue, selection)
                return Walk(queue, None, held, admission, (*lanes, *open_files), filing=filing)
        lanes = yield from all_lanes(self.sql, queue)
        lanes += open_files
        if selects_all(select):
            return Walk(queue, None, held, admission, lanes, filing=filing)
        began = BOTTOM
        if self.walks is not None and not open_files:
            # Who comes from a file may have had its turn long ago.
            began = self.walks.start(queue.id, select)
        return Walk(queue, select, held, admission, lanes, began, filing)

    def _ask_channels(
        self,
        walk: Walk,
        sharing: Sharing,
        channels: Sequence[str],
        each: int,
        but: Sequence[ItemState],
    ) -> Steps[list[ItemState]]:
        """Take so many of each channel, beside what was taken already."""
        asked: Sequence[str] = channels
        limit = sharing.left
        if walk.admission is not None:
            # Some of what they have may not fit beside the rest: then others give instead.
            open_ones = yield from walk.admission.open(channels)
            asked = [name for name in channels if name in open_ones]
            limit = each * len(asked)
            if walk.filing is not None and len(asked) < len(channels):
                for name in channels:
                    if name not in open_ones:
                        walk.filing.note(walk.ids[name], walk.admission.file_of(name))
        known = set(asked)
        rows: Sequence[Any] = ()
        if asked:
            rows = yield self.sql.channel_items(
                channels=[walk.ids[name] for name in asked],
                each=each,
                limit=limit,
                but=[item.id for item in but if item.key_values in known],
            )
        ordered = sorted(rows, key=lambda row: (row["turn"], row["rank"], row["position"]))
        if walk.admission is not None:
            ordered = walk.admission.shared_out(ordered, sharing.left)
        items = [item_of(row, walk.queue.name) for row in ordered]
        sharing.note(channels, each, Counter(item.key_values or "" for item in items))
        return items

    def _next_channels(self, walk: Walk, count: int) -> Steps[list[str]]:
        """The next channels in the order of turns that are selected and may give something."""
        while len(walk.waiting) < count and not walk.is_over:
            limit = walk.next_page(count)
            lanes = walk.open_lanes()
            pages = yield tuple(
                self.sql.next_channels(
                    queue=walk.queue.id, lane=lane, after=walk.after, limit=limit
                )
                for lane in lanes
            )
            page = merged(pages, limit)
            if page:
                walk.after = page[-1]["turn"]
            walk.is_over = len(page) < limit
            strays = walk.strays(page, lanes, pages)
            selected = [
                row
                for row in page
                if row["channel"] not in strays and walk.selects(row["key_values"])
            ]
            if selected and walk.first is None:
                walk.first = selected[0]["turn"]
            rows = [row for row in selected if row["key_values"] not in walk.held]
            if walk.queue.settings.serial and rows:
                free = yield from self._free_channels([row["channel"] for row in rows])
                rows = [row for row in rows if row["channel"] in free]
            walk.ids |= {row["key_values"]: row["channel"] for row in rows}
            walk.waiting.extend(row["key_values"] for row in rows)
        return [walk.waiting.popleft() for _ in range(min(count, len(walk.waiting)))]

    def _free_channels(self, channels: Sequence[int]) -> Steps[Collection[int]]:
        """Which of the strict channels may give an item, to us and nobody else."""
        # In this order: what others have taken before we had the lock is seen then.
        locked, blocked = yield (
            self.sql.lock_turns(channels=channels),
            self.sql.blocked_channels(channels=channels),
        )
        return {row["channel"] for row in locked} - {row["channel"] for row in blocked}

    def _in_line(self, walk: Walk, select: str | None, count: int) -> Steps[Chosen]:
        queue, admission = walk.queue, walk.admission
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
                if _is_selected(row, select) and row["key_values"] not in walk.held
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
                    rows = admission.shared_out(rows, most)
                found += [item_of(row, queue.name) for row in rows]
            if len(page) < limit:
                break
            rank, position = page[-1]["rank"], page[-1]["position"]
            limit = LARGE_PAGE
        return Chosen(found)

    def _one_of_each(self, rows: Sequence[Any], used: set[int]) -> Steps[list[Any]]:
        """The first item of each strict channel that may give one, and all that are in none."""
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


class Walk:
    """A walk over the channels of a queue, in the order of their turns."""

    def __init__(
        self,
        queue: QueueRow,
        select: str | None,
        held: Mapping[str, int],
        admission: Admission | None,
        lanes: Sequence[int] = (UNSORTED,),
        began: int = BOTTOM,
        filing: Filing | None = None,
    ) -> None:
        self.queue = queue
        self.held = held
        self.admission = admission
        self.lanes = lanes
        self.select = select
        self.filing = filing
        self.began = self.after = began
        self.first: int | None = None
        self.is_over = not lanes
        self.waiting: deque[str] = deque()
        self.ids: dict[str, int] = {}
        self._page = SMALL_PAGE

    def selects(self, key_values: str) -> bool:
        """Whether a channel that was met is selected."""
        return self.select is None or selects(self.select, key_values)

    def from_bottom(self) -> Walk:
        """The same from the bottom of the turns."""
        if self.admission is not None:
            self.admission.start_again()
        if self.filing is not None:
            self.filing.start_again()
        return Walk(
            self.queue, self.select, self.held, self.admission, self.lanes, filing=self.filing
        )

    def open_lanes(self) -> Sequence[int]:
        """Where channels may be that there is room for."""
        if self.filing is None or self.admission is None:
            return self.lanes
        return self.filing.still_open(self.lanes, self.admission.has_room)

    def strays(
        self, page: Sequence[Row], lanes: Sequence[int], pages: Sequence[Sequence[Row]]
    ) -> Collection[int]:
        """Channels in files that are not selected."""
        return () if self.filing is None else self.filing.strays(page, lanes, pages)

    def next_page(self, count: int) -> int:
        """How many channels to look at: more each time, since few seem to be selected."""
        limit = min(max(self._page, count), LARGE_PAGE)
        self._page = min(4 * self._page, LARGE_PAGE)
        return limit


def merged(pages: Sequence[Sequence[Row]], limit: int) -> Sequence[Row]:
    """The first of all that are found in several lanes, by their turns."""
    if len(pages) == 1:
        return pages[0]
    return sorted((row for page in pages for row in page), key=itemgetter("turn"))[:limit]


def _is_selected(row: Any, select: str | None) -> bool:
    name = row["key_values"]
    return select is None or (name is not None and selects(select, name))
