"""Headrace's own queues as a player, and in the cases that look inside: all calls are here."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

from bench.bodies import slices
from bench.contender import BlockingPlayer, Figures, Handle, Pace
from bench.context import PeerMissing
from bench.old_names import with_present_names
from bench.ours import SQLITE_DURABILITY

import headrace

A_CHUNK = 100
LEASE_SECONDS = 60
LONG = timedelta(days=1)


def is_there() -> bool:
    return hasattr(headrace.Headrace, "push")


def check() -> None:
    """``PeerMissing`` while there are no queues."""
    if not is_there():
        raise PeerMissing("this version of headrace has no queues")


class Player(BlockingPlayer):
    """Blocking calls; ``pushers_rate`` is the one that is about asyncio."""

    pace = 30_000.0

    def __init__(self, where: str, queue: str = "orders") -> None:
        check()
        super().__init__(where)
        is_sqlite = where.startswith("sqlite")
        is_relaxed = "durability=relaxed" in where
        kind = SQLITE_DURABILITY["relaxed" if is_relaxed else "safe"]
        self.durability = kind if is_sqlite else "fsync at commit"
        self.client = f"headrace {headrace.__version__}, {_driver(is_sqlite)}"
        self.queue = queue
        self._hr: Any = with_present_names(headrace.connect(where))

    def close(self) -> None:
        self._hr.close()

    def push(self, bodies: list[Any]) -> None:
        if len(bodies) == 1:
            self._hr.push(self.queue, bodies[0])
        else:
            self._hr.push_many(self.queue, bodies)

    def plan(self, count: int) -> None:
        """Fill with items that are due in a long time."""
        for bodies in self.fillings(count):
            self._hr.push_many(self.queue, bodies, delay=LONG)

    def fill_with(self, waiting: int, planned: int) -> None:
        self.plan(planned)
        self.fill(waiting)

    def take(self, size: int) -> int:
        queue = self._hr.queue(self.queue)
        items = queue.claim(size, lease=LEASE_SECONDS)
        for item in items:
            _ = item.payload
        if len(items) == 1:
            items[0].complete()
        elif items:
            queue.complete(items)
        return len(items)

    def work_rate(self, seconds: float) -> Figures:
        """No-op items, one worker. The rest is worked off too, so that none is left over."""
        count = self.enough(seconds)
        self.fill(count)
        pace = Pace(seconds, self.warm, count)
        is_empty = threading.Event()
        left = count

        def handle(item: Any) -> None:
            nonlocal left
            _ = item.payload
            pace.count()
            left -= 1
            if not left:
                is_empty.set()

        worker = self._hr.start_worker(self.queue, handle, chunk=A_CHUNK, concurrency=1)
        is_empty.wait(10 * seconds + 30)
        worker.stop()
        return self.noted(pace)

    def serve(self, handle: Handle) -> None:
        self._hr.start_worker(self.queue, lambda item: handle(item.payload))
        threading.Event().wait()

    def pushers_rate(self, pushers: int, seconds: float) -> Figures:
        return asyncio.run(self._pushers_rate(pushers, seconds))

    async def _pushers_rate(self, pushers: int, seconds: float) -> Figures:
        async with await headrace.aconnect(self.where) as hr:
            singles = slices(self.bodies, 1)

            async def pusher(end: float) -> int:
                done = 0
                while time.perf_counter() < end:
                    await hr.push(self.queue, next(singles)[0])
                    done += 1
                return done

            async def all_pushers(seconds: float) -> float:
                start = time.perf_counter()
                done = await asyncio.gather(*(pusher(start + seconds) for _ in range(pushers)))
                return sum(done) / (time.perf_counter() - start)

            # Connections are opened and statements prepared before time counts.
            await all_pushers(seconds / 5)
            return {"rate": await all_pushers(seconds)}


def _driver(is_sqlite: bool) -> str:
    if is_sqlite:
        return "sqlite3"
    import psycopg

    return f"psycopg {psycopg.__version__}"
