"""Selections in SQL: registered queries, by which claims select channels.

A row of the table ``lane`` stands for the channels that exactly the same selections include.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.contract.items import SelectionRow
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Many, Row, Statements
from headrace.model.queues.channels import MAX_SELECTIONS, selects, selects_all

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

# The ``lane`` of channels that are not sorted yet.
UNSORTED = 0
PAGE = 1000


class QueueSelections:
    """Registers, lists and forgets selections."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def register_selection(self, queue: str, select: str) -> Op[None]:
        def steps() -> Steps[None]:
            row = yield from self._context.storage.locked_queue(queue)
            if selects_all(select):
                return
            found = yield self.sql.find_selection(queue=row.id, form=select)
            if found:
                yield self.sql.touch_selection(id=found[0]["id"], seen_at=row.now)
                return
            known = yield self.sql.list_selections(queue=row.id)
            by_age = sorted(known, key=lambda selection: selection["seen_at"])
            surplus = by_age[: max(len(known) + 1 - MAX_SELECTIONS, 0)]
            since = yield from self._forget_selections(row, surplus)
            yield self.sql.add_selection(queue=row.id, form=select, since=since, seen_at=row.now)

        return Op("channels.register_selection", steps)

    def forget_selection(self, queue: str, select: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            row = yield from self._context.storage.locked_queue(queue)
            found = yield self.sql.find_selection(queue=row.id, form=select)
            if found:
                yield from self._forget_selections(row, found)
            return bool(found)

        return Op("channels.forget_selection", steps)

    def _forget_selections(self, queue: QueueRow, selections: Iterable[Row]) -> Steps[int]:
        """Forget selections; returns the new version of the queue's selections."""
        yield self.sql.drop_selections(ids=[selection["id"] for selection in selections])
        [changed] = yield self.sql.next_selection_version(queue=queue.id)
        number: int = changed["selections"]
        return number

    def selections(self, queue: str) -> Op[list[SelectionRow]]:
        def steps() -> Steps[list[SelectionRow]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.list_selections(queue=row.id)
            return [SelectionRow(select=row["form"], seen_at=row["seen_at"]) for row in found]

        return Op("channels.selections", steps, writes=False)

    def forget_old_selections(self, queue: QueueRow, at: int) -> Steps[None]:
        """Forget selections that were last registered at ``at`` or earlier."""
        known = yield self.sql.list_selections(queue=queue.id)
        if any(selection["seen_at"] <= at for selection in known):
            row = yield from self._context.storage.locked_queue(queue.name)
            known = yield self.sql.list_selections(queue=row.id)
            yield from self._forget_selections(
                row, [some for some in known if some["seen_at"] <= at]
            )


class StoredSelection(NamedTuple):
    """A registered selection."""

    id: int
    since: int


def all_lanes(sql: Statements, queue: QueueRow) -> Steps[list[int]]:
    """All ``lane`` ids in which a queue's channels have turns."""
    if not queue.selections:
        return [UNSORTED]
    found = yield sql.list_lanes(queue=queue.id)
    return [UNSORTED, *(lane["id"] for lane in found)]


def find_selection(sql: Statements, queue: QueueRow, select: str) -> Steps[StoredSelection | None]:
    """A query, if it is registered."""
    if not queue.selections:
        return None
    found = yield sql.find_selection(queue=queue.id, form=select)
    return StoredSelection(found[0]["id"], found[0]["since"]) if found else None


def sorted_lanes(sql: Statements, queue: QueueRow, selection: StoredSelection) -> Steps[list[int]]:
    """The ``lane`` ids of all channels that a selection includes and that have turns.

    Channels that were not sorted since the selection was registered are sorted first.
    """
    lanes = yield sql.list_lanes(queue=queue.id)
    old = [UNSORTED, *(lane["id"] for lane in lanes if lane["version"] < selection.since)]
    sorting: Sorting | None = None
    for lane in old:
        seen: set[int] = set()
        while True:
            page = yield sql.lane_channels(queue=queue.id, lane=lane, limit=PAGE)
            if seen.issuperset(row["channel"] for row in page):
                # None are left, or only some that another transaction is changing now.
                break
            seen |= {row["channel"] for row in page}
            if sorting is None:
                sorting = Sorting(sql, queue, (yield sql.list_selections(queue=queue.id)), lanes)
            yield from sorting.sort(page)
    if sorting is not None:
        lanes = yield sql.list_lanes(queue=queue.id)
    return [lane["id"] for lane in lanes if f",{selection.id}," in lane["selections"]]


class Sorting:
    """Assigns each channel its ``lane``, by all the selections of its queue.

    The queue was read before the selections. A selection that was added in between counts as well,
    but the version of the ``lane`` rows does not promise it.
    """

    def __init__(
        self, sql: Statements, queue: QueueRow, selections: Iterable[Row], lanes: Iterable[Row]
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
        """Assign channels their ``lane``, and make those that are missing."""
        matching = {row["channel"]: self._matching(row["key_values"]) for row in channels}
        missing = sorted(set(matching.values()) - set(self._lanes))
        for selections in missing:
            yield self._sql.add_lane(
                queue=self._queue.id, version=self._queue.selections, selections=selections
            )
        if missing:
            self._learn((yield self._sql.list_lanes(queue=self._queue.id)))
        rows = [
            {"channel": id, "lane": self._lanes[selections]}
            for id, selections in sorted(matching.items())
        ]
        yield Many.of(self._sql.sort_channels, rows)
        yield Many.of(self._sql.sort_turns, rows)

    def _matching(self, key_values: str) -> str:
        """The ids of the selections that select these key-values, as ``lane`` rows have them."""
        ids = sorted(id for form, id in self._selections if selects(form, key_values))
        return "".join(f",{id}" for id in ids) + ","
