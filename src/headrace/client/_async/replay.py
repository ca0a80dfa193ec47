"""Replays: a range of a topic's records, pushed to a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.client._async.procs import AsyncProc
from headrace.client.workflows import topic_to_queue
from headrace.client.workflows.topic_to_queue import Pace
from headrace.core.topic_to_queue import Follow

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient

Progress = Callable[[int, int], object]
"""Called with the number of records of a replay in the queue, and with their total."""


class AsyncReplay:
    """Pushes a range of a topic's records to a queue, each of them once per replay.

    A replay is known by its name: ``run`` goes on where it was stopped or killed, also in
    another process, and does nothing when it is done. It is forgotten a week after its last
    step.
    """

    def __init__(
        self, client: AsyncClient, follow: Follow, first: int, last: int, rate: float | None
    ) -> None:
        self._client = client
        self._follow = follow
        self.first = first
        self.last = last
        self._rate = rate
        self._proc = AsyncProc(client, follow.name)

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._follow.name

    @property
    def total(self) -> int:
        """How many records it covers."""
        return max(self.last - self.first + 1, 0)

    async def done(self) -> int:
        """How many of them are in the queue (or dead letters of its proc)."""
        if not self.total:
            return 0
        info = await self._proc.info()
        return min(max((info.position or self.first) - self.first, 0), self.total)

    async def run(self, progress: Progress | None = None) -> int:
        """Push what is left; how many records were moved. ``ProcDisabled`` while it is paused."""
        if not self.total:
            return 0
        before = await self.done()
        pace = Pace(self._rate)
        while True:
            plan = topic_to_queue.replay_some(self._client._store, self._follow, self.last, pace)
            seq = await self._client._follow(plan)
            if seq is None:
                return self.total - before
            if progress is not None:
                progress(seq - self.first + 1, self.total)

    async def pause(self) -> None:
        """Pause the replay, in whichever process it runs, until ``resume``."""
        await self._proc.disable()

    async def resume(self) -> None:
        """Let the replay go on."""
        await self._proc.resume()
