"""Selections in SQL: queries that claims select by, and the lanes of what they select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.contract.items import SelectionRow
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.base import QueueBase
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Many, Row, Sql
from headrace.model.channels import MOST_SELECTIONS, selects, selects_all

# The lane of channels that nobody has put into one.
UNSORTED = 0
PAGE = 1000


class SelectionLooks(QueueBase):
    """What people do with selections."""

    def register_selection(self, queue: str, select: str) -> Op[None]:
        def steps() -> Steps[None]:
            row = yield from self.locked_queue(queue)
            if selects_all(select):
                return
            found = yield self.sql.find_selection(queue=row.id, form=select)
            if found:
                yield self.sql.see_selection(id=found[0]["id"], seen_at=row.now)
                return
            known = yield self.sql.list_selections(queue=row.id)
            by_age = sorted(known, key=lambda selection: selection["seen_at"])
            surplus = by_age[: max(len(known) + 1 - MOST_SELECTIONS, 0)]
            since = yield from self._forget_selections(row, surplus)
            yield self.sql.add_selection(queue=row.id, form=select, since=since, seen_at=row.now)

        return Op("register_selection", steps)

    def forget_selection(self, queue: str, select: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            row = yield from self.locked_queue(queue)
            found = yield self.sql.find_selection(queue=row.id, form=select)
            if found:
                yield from self._forget_selections(row, found)
            return bool(found)

        return Op("forget_selection", steps)

    def _forget_selections(self, queue: QueueRow, selections: Iterable[Row]) -> Steps[int]:
        """Forget selections; the number of what is left, or comes to be now."""
        yield self.sql.drop_selections(ids=[selection["id"] for selection in selections])
        [changed] = yield self.sql.change_selections(queue=queue.id)
        number: int = changed["selections"]
        return number

    def selections(self, queue: str) -> Op[list[SelectionRow]]:
        def steps() -> Steps[list[SelectionRow]]:
            row = yield from self.queue_row(queue)
            found = yield self.sql.list_selections(queue=row.id)
            return [SelectionRow(select=row["form"], seen_at=row["seen_at"]) for row in found]

        return Op("selections", steps, writes=False)

    def forget_old_selections(self, queue: QueueRow, at: int) -> Steps[None]:
        """Forget what nobody has selected by for long."""
        known = yield self.sql.list_selections(queue=queue.id)
        if any(selection["seen_at"] <= at for selection in known):
            row = yield from self.locked_queue(queue.name)
            known = yield self.sql.list_selections(queue=row.id)
            yield from self._forget_selections(
                row, [some for some in known if some["seen_at"] <= at]
            )


class Selection(NamedTuple):
    """A selection that is registered."""

    id: int
    since: int


def all_lanes(sql: Sql, queue: QueueRow) -> Steps[list[int]]:
    """Where a queue's channels take turns."""
    if not queue.selections:
        return [UNSORTED]
    found = yield sql.list_lanes(queue=queue.id)
    return [UNSORTED, *(lane["id"] for lane in found)]


def find_selection(sql: Sql, queue: QueueRow, select: str) -> Steps[Selection | None]:
    """A query, if it is registered."""
    if not queue.selections:
        return None
    found = yield sql.find_selection(queue=queue.id, form=select)
    return Selection(found[0]["id"], found[0]["since"]) if found else None


def sorted_lanes(sql: Sql, queue: QueueRow, selection: Selection) -> Steps[list[int]]:
    """The lanes of all channels that a selection selects, as far as they take turns.

    Channels that nobody has put into a lane since it was registered are put into one.
    """
    lanes = yield sql.list_lanes(queue=queue.id)
    old = [UNSORTED, *(lane["id"] for lane in lanes if lane["version"] < selection.since)]
    sorting: Sorting | None = None
    for lane in old:
        seen: set[int] = set()
        while True:
            page = yield sql.lane_channels(queue=queue.id, lane=lane, limit=PAGE)
            if seen.issuperset(row["channel"] for row in page):
                # None, or none that nobody is just changing.
                break
            seen |= {row["channel"] for row in page}
            if sorting is None:
                sorting = Sorting(sql, queue, (yield sql.list_selections(queue=queue.id)), lanes)
            yield from sorting.sort(page)
    if sorting is not None:
        lanes = yield sql.list_lanes(queue=queue.id)
    return [lane["id"] for lane in lanes if f",{selection.id}," in lane["selections"]]


class Sorting:
    """Puts channels into lanes, by all the selections of their queue.

    The queue was read before the selections: what came later is in the lanes as well, but they
    do not promise it.
    """

    def __init__(
        self, sql: Sql, queue: QueueRow, selections: Iterable[Row], lanes: Iterable[Row]
    ) -> None:
        self._sql = sql
        self._queue = queue
        self._selections = [(row["form"], row["id"]) for row in selections]
        self._lanes: dict[str, int] = {}
        self._learn(lanes)

    def _learn(self, lanes: Iterable[Row]) -> None:
        version = self._queue.selections
        self._lanes = {row["selections"]: row["id"] for row in lanes if row["version"] == version}

    def sort(self, channels: Iterable[Row]) -> Steps[None]:
        """Put channels into the lanes where they belong."""
        homes = {row["channel"]: self._home(row["key_values"]) for row in channels}
        missing = sorted(set(homes.values()) - set(self._lanes))
        for home in missing:
            yield self._sql.add_lane(
                queue=self._queue.id, version=self._queue.selections, selections=home
            )
        if missing:
            self._learn((yield self._sql.list_lanes(queue=self._queue.id)))
        rows = [{"channel": id, "lane": self._lanes[home]} for id, home in sorted(homes.items())]
        yield Many.of(self._sql.sort_channels, rows)
        yield Many.of(self._sql.sort_turns, rows)

    def _home(self, key_values: str) -> str:
        ids = sorted(id for form, id in self._selections if selects(form, key_values))
        return "".join(f",{id}" for id in ids) + ","
