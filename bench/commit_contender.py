"""The player of ``bench.commits``: queues, channels, limits and topics by public names only."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from bench import channel_ours
from bench.contender import Figures, Pace

import headrace
from headrace import ANY

FAR = 100_000
"""A limit that nothing here comes near to."""

RULES: tuple[dict[str, Any], ...] = ({"os": "linux"}, {"os": ANY}, {"n": ANY})


class Player(channel_ours.Player):
    """Channels only once ``play`` was asked for."""

    _switched_off: tuple[str, ...] = ()

    def switch_off(self, paths: list[str]) -> None:
        """Let operations run by their general bodies."""
        self._switched_off = tuple(paths)
        self._without_paths(self._hr)

    def _without_paths(self, hr: Any) -> None:
        context = hr._store.context  # noqa: SLF001  # no user switches a fast path off
        none = dict.fromkeys(self._switched_off, lambda *_: None)
        context.fastpath = context.fastpath._replace(**none)

    def rules(self, count: int) -> None:
        for group_by in RULES[:count]:
            self._hr.limits.create(group_by, FAR)

    def work_rate(self, seconds: float, handler_ms: float = 0) -> Figures:
        """What one worker handles; for handlers that take time, with sixteen of them."""
        if not handler_ms:
            return super().work_rate(seconds)
        count = int(seconds * 8_000)
        self.fill(count)
        pace = Pace(seconds, self.warm, count)
        lock, left, is_empty = threading.Lock(), count, threading.Event()

        def handle(item: Any) -> None:
            nonlocal left
            _ = item.payload
            time.sleep(handler_ms / 1000)
            with lock:
                pace.count()
                left -= 1
                if not left:
                    is_empty.set()

        worker = self._hr.start_worker(self.queue, handle, concurrency=16)
        is_empty.wait(10 * seconds + 30)
        worker.stop()
        return pace.figures()

    def keyed_push_rate(self, seconds: float) -> Figures:
        """Single pushes, each with an idempotency key of its own."""
        bodies, keys = self.slices(1), self._new_keys()
        pace = Pace(seconds, 0)
        while not pace.is_over:
            self._hr.push(self.queue, next(bodies)[0], key=next(keys))
            pace.count()
        return pace.figures()

    def keyed_commit_rate(self, seconds: float) -> Figures:
        """The same with commits."""
        bodies, keys = self.slices(1), self._new_keys()
        pace = Pace(seconds, 0)
        while not pace.is_over:
            self._hr.commit("t", next(bodies)[0], key=next(keys))
            pace.count()
        return pace.figures()

    def keyed_callers_rate(self, does: str, callers: int, seconds: float) -> Figures:
        """Tasks that push or commit with keys, in group commits."""
        return asyncio.run(self._keyed_callers_rate(does, callers, seconds))

    async def _keyed_callers_rate(self, does: str, callers: int, seconds: float) -> Figures:
        bodies, keys = self.slices(1), self._new_keys()
        async with await headrace.aconnect(self.where) as hr:
            if self._switched_off:
                self._without_paths(hr)
            act, name = (hr.push, self.queue) if does == "push" else (hr.commit, "t")

            async def caller(pace: Pace) -> None:
                while not pace.is_over:
                    await act(name, next(bodies)[0], key=next(keys))
                    pace.count()

            # Connections are opened and statements prepared before time counts.
            for length in (seconds / 5, seconds):
                pace = Pace(length, 0)
                await asyncio.gather(*(caller(pace) for _ in range(callers)))
            return pace.figures()

    def _new_keys(self) -> Iterator[str]:
        """Keys that were never used."""
        return (uuid.uuid4().hex for _ in itertools.count())

    def commit_rate(self, size: int, seconds: float) -> Figures:
        batches = self.slices(size)
        pace = Pace(seconds, 0)
        while not pace.is_over:
            bodies = next(batches)
            if size == 1:
                self._hr.commit("t", bodies[0])
            else:
                self._hr.commit_many("t", bodies)
            pace.count(size)
        return pace.figures()

    def read_rate(self, seconds: float) -> Figures:
        if not self._hr.topics.list(prefix="t"):
            for bodies in self.fillings(20_000):
                self._hr.commit_many("t", bodies)
        pace = Pace(seconds, 0)
        while not pace.is_over:
            for record in self._hr.range("t"):
                _ = record.body
                if pace.count():
                    break
        return pace.figures()

    def proc_rate(self, size: int, seconds: float) -> Figures:
        """Batches claimed and acknowledged."""
        name = f"p{time.monotonic_ns()}"
        for bodies in self.fillings(1000 if size == 1 else 20_000):
            self._hr.commit_many(name, bodies)
        proc = self._hr.procs.create(name, name, offset=">")
        pace = Pace(seconds, 0)
        while not pace.is_over:
            batch = proc.claim(size)
            if not batch:
                break
            batch.ack()
            pace.count(len(batch))
        return pace.figures()
