"""Channels that wait for room in a total, out of the way of claims.

A claim walks over channels in the order of their turns. Those that a full total holds back would
be met by every claim, however many they are. So a claim that meets many of them puts them into a
*file*: a lane of its own, with a number below zero, for those that one total holds back at one
limit. Claims look into the files whose total has come below that limit, and into no others.

Nothing has to be done where slots are given back: whether a file is open is read from its total.
A channel leaves its file when it is its turn, and all of them do when rules change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Finally, Many, Row, Sql, Statement
from headrace.model.channels import selects

# Fewer that are held back by the same total are not worth a file; one in which only half as many
# are left, which the first page of a walk shows, is given up.
FEWEST = 100


class File(NamedTuple):
    """What channels wait for: a total (0 where nothing is let through at all), and its limit."""

    bucket: int
    most: int


class Filing:
    """The files of a queue that one claim looks into, and what it puts there."""

    def __init__(self, sql: Sql, queue: QueueRow, select: str, *, has_files: bool) -> None:
        self._sql = sql
        self._queue = queue
        self._select = select
        self._has_files = has_files
        self._is_begun = False
        # Files that are looked into, by their lanes, and those that are not needed any more.
        self._open: dict[int, File] = {}
        self._over: list[int] = []
        # The lanes of channels that were met in files, and those that are to leave in any case.
        self._met: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._blocked: dict[int, File] = {}

    def lanes(self) -> Steps[list[int]]:
        """The lanes of the files that are open."""
        if self._has_files:
            found = yield self._sql.open_files(queue=self._queue.id)
            self._open = {-row["id"]: File(row["bucket"], row["most"]) for row in found}
        return list(self._open)

    def still_open(self, lanes: Sequence[int], has_room: Callable[[File], bool]) -> Sequence[int]:
        """Those of some lanes that this claim has not filled the total of."""
        if not self._open:
            return lanes
        return [lane for lane in lanes if lane >= 0 or has_room(self._open[lane])]

    def start_again(self) -> None:
        """Nothing was taken after all."""
        self._blocked = {}

    def strays(
        self, rows: Sequence[Row], lanes: Sequence[int], pages: Sequence[Sequence[Row]]
    ) -> Collection[int]:
        """Those of some channels that come from files and are not selected."""
        files = [(lane, page) for lane, page in zip(lanes, pages, strict=True) if lane < 0]
        if not self._is_begun:
            # Few or none are left in these: they need no file any more.
            short = [(lane, page) for lane, page in files if len(page) < FEWEST // 2]
            self._leaving |= {row["channel"] for _, page in short for row in page}
            self._over = [-lane for lane, _ in short]
            self._is_begun = True
        filed = {row["channel"]: lane for lane, page in files for row in page}
        self._met |= filed
        found = {
            row["channel"]
            for row in rows
            if row["channel"] in filed and not selects(self._select, row["key_values"])
        }
        # There is room for them: who selects them finds them among the others.
        self._leaving |= found
        return found

    def note(self, channel: int, file: File | None) -> None:
        """A channel has no room, and belongs into a file."""
        if file is not None and self._open.get(self._met.get(channel, 0)) != file:
            self._blocked[channel] = file

    def write(self, served: Iterable[int], *, is_short: bool) -> Steps[None]:
        """File channels that have no room, and let others leave; what was taken is counted."""
        sql, queue = self._sql, self._queue.id
        sizes = Counter(self._blocked.values())
        files = {file for file, size in sizes.items() if size >= FEWEST}
        leaving = self._leaving | {channel for channel in served if channel in self._met}
        statements: list[Statement | Many] = []
        if leaving:
            statements.append(sql.unfile_channels(channels=sorted(leaving)))
        if self._over:
            statements.append(sql.drop_files(ids=self._over))
        if files:
            rows = [
                {"channel": channel, "queue": queue, **file._asdict()}
                for channel, file in self._blocked.items()
                if file in files
            ]
            new = [{"queue": queue, **file._asdict()} for file in sorted(files)]
            statements += [Many.of(sql.add_files, new), Many.of(sql.file_channels, rows)]
        if is_short and self._has_files:
            # Channels in files that are closed were not met, but are waited for.
            statements += [sql.await_files(queue=queue), sql.await_filed(queue=queue)]
        if statements:
            yield Finally(tuple(statements))
