"""Reading topics and handling procs: what a client and a transaction have in common.

Docstrings are on the blocking class; ``documented`` gives them to the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator

from msgspec import UNSET, UnsetType

from headrace.client.calls import MOST_TOPICS, Timeout, changes
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.client.running import AsyncRunning, Running, documented
from headrace.client.waiting import Wait
from headrace.model.procs import ProcInfo, Strategy
from headrace.model.record import Record, TopicInfo

Procs = Iterable["str | Proc | AsyncProc"]


class Operations(Running):
    """Reading and procs for blocking code."""

    def range(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
    ) -> list[Record]:
        """Read records in order.

        An end is a full id ``1518951480106-7``, a timestamp in milliseconds
        ``1518951480106`` (the whole millisecond), a sequence number ``:7`` (which must
        exist), or nothing. ``exclusive`` leaves out both ends, but no timestamps. No
        limit, or one below 1, reads all: use ``iterate`` for what does not fit in memory.
        """
        return list(self._scan(topic, start, end, exclusive, limit, descending=False))

    def revrange(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
    ) -> list[Record]:
        """Read records backwards: ``start`` is the high end, ``end`` the low one."""
        return list(self._scan(topic, start, end, exclusive, limit, descending=True))

    def iterate(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[Record]:
        """Stream a range in constant memory, page by page.

        It ends where the topic ended when it began. With ``reverse`` the ends are as in
        ``revrange``. No transaction stays open between pages.
        """
        return self._scan(topic, start, end, exclusive, limit, descending=reverse)

    def _scan(
        self,
        topic: str,
        start: str | None,
        end: str | None,
        exclusive: bool,
        limit: int | None,
        *,
        descending: bool,
    ) -> Iterator[Record]:
        scan = self._calls.scan(topic, start, end, exclusive, limit, descending)

        def pages() -> Iterator[Record]:
            while scan.query is not None:
                yield from self._run(self._calls.read(scan))

        return pages()

    def length(self, topic: str) -> int:
        """How many records the topic holds now."""
        return self._run(self._calls.length(topic))

    def topic_info(self, topic: str) -> TopicInfo:
        """The topic's head: first and next sequence number, last timestamp."""
        return self._run(self._calls.topic_info(topic))

    def topics(
        self, *, prefix: str = "", after: str = "", limit: int = MOST_TOPICS
    ) -> list[TopicInfo]:
        """Topics by name; go on with ``after`` the last one."""
        return self._run(self._calls.topics(prefix, after, limit))

    def proc(
        self,
        name: str,
        *,
        topic: str | None = None,
        offset: str | None = None,
        max_reclaims: int | UnsetType = UNSET,
        reclaim_timeout: Timeout | UnsetType = UNSET,
        on_max_reclaims_reached: Strategy | UnsetType = UNSET,
    ) -> Proc:
        """Refer to a proc, and make it if there is none of that name.

        ``offset`` says where a new proc starts and is ignored by an existing one: ``>``
        (the default) at the first record, ``$>`` behind the newest, an id or ``:seq``
        after that record, a timestamp at its first record. Without a topic the proc must
        exist. Settings that are given are stored, on an existing proc too: after
        ``max_reclaims`` (10; -1 for no limit) failures in a row the proc is disabled,
        goes on (``continue``), or moves the culprit to topic ``<name>-dead``
        (``dead_letter``); a claim is given back after ``reclaim_timeout`` (10 s; None
        for never).
        """
        wanted = changes(max_reclaims, reclaim_timeout, on_max_reclaims_reached)
        info = self._run(self._calls.proc(name, topic, offset, wanted))
        return Proc(self, info.name, info.topic)

    def procs(self, *, topic: str | None = None) -> list[ProcInfo]:
        """All procs by name, or those of one topic."""
        return self._run(self._calls.procs(topic))

    def available_proc(self, procs: Procs, count: int = 1) -> Claim | None:
        """Claim for whichever proc has work, the one that claimed longest ago first.

        Procs that are disabled or have a claim out are passed over; None if none has work.
        """
        taken = self._run(self._calls.available_proc(procs, count))
        if taken is None:
            return None
        return Claim(Proc(self, taken.proc, taken.records[0].topic), taken)

    def wait_for_procs(
        self, procs: str | Proc | Procs | None = None, *, timeout: float | None = None
    ) -> None:
        """Wait until active procs (these, or all) have acked all that is committed.

        ``WaitTimeout`` names those that have not. A proc that gets disabled is no longer
        waited for. It does not run the procs.
        """
        wait = Wait(timeout)
        while behind := self._run(self._calls.pending(procs)):
            time.sleep(wait.pause(behind))


class AsyncOperations(AsyncRunning):
    """Reading and procs for async code."""

    async def range(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
    ) -> list[Record]:
        scan = self._scan(topic, start, end, exclusive, limit, descending=False)
        return [record async for record in scan]

    async def revrange(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
    ) -> list[Record]:
        scan = self._scan(topic, start, end, exclusive, limit, descending=True)
        return [record async for record in scan]

    def iterate(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncIterator[Record]:
        return self._scan(topic, start, end, exclusive, limit, descending=reverse)

    def _scan(
        self,
        topic: str,
        start: str | None,
        end: str | None,
        exclusive: bool,
        limit: int | None,
        *,
        descending: bool,
    ) -> AsyncIterator[Record]:
        scan = self._calls.scan(topic, start, end, exclusive, limit, descending)

        async def pages() -> AsyncIterator[Record]:
            while scan.query is not None:
                for record in await self._run(self._calls.read(scan)):
                    yield record

        return pages()

    async def length(self, topic: str) -> int:
        return await self._run(self._calls.length(topic))

    async def topic_info(self, topic: str) -> TopicInfo:
        return await self._run(self._calls.topic_info(topic))

    async def topics(
        self, *, prefix: str = "", after: str = "", limit: int = MOST_TOPICS
    ) -> list[TopicInfo]:
        return await self._run(self._calls.topics(prefix, after, limit))

    async def proc(
        self,
        name: str,
        *,
        topic: str | None = None,
        offset: str | None = None,
        max_reclaims: int | UnsetType = UNSET,
        reclaim_timeout: Timeout | UnsetType = UNSET,
        on_max_reclaims_reached: Strategy | UnsetType = UNSET,
    ) -> AsyncProc:
        wanted = changes(max_reclaims, reclaim_timeout, on_max_reclaims_reached)
        info = await self._run(self._calls.proc(name, topic, offset, wanted))
        return AsyncProc(self, info.name, info.topic)

    async def procs(self, *, topic: str | None = None) -> list[ProcInfo]:
        return await self._run(self._calls.procs(topic))

    async def available_proc(self, procs: Procs, count: int = 1) -> AsyncClaim | None:
        taken = await self._run(self._calls.available_proc(procs, count))
        if taken is None:
            return None
        return AsyncClaim(AsyncProc(self, taken.proc, taken.records[0].topic), taken)

    async def wait_for_procs(
        self, procs: str | AsyncProc | Procs | None = None, *, timeout: float | None = None
    ) -> None:
        wait = Wait(timeout)
        while behind := await self._run(self._calls.pending(procs)):
            await asyncio.sleep(wait.pause(behind))


documented(AsyncOperations, Operations)
documented(AsyncProc, Proc)
documented(AsyncClaim, Claim)
