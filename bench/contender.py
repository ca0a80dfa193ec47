"""A queue in a process of its own, and what can be asked of it.

``python -m bench.contender MODULE WHERE`` opens ``MODULE.Player(WHERE)``, then reads lines of
JSON and answers each with one. A process each keeps one peer's event loop, threads and
garbage out of another's figures. What a player cannot do, it has no method for.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from bench.bodies import pool, slices
from bench.context import PeerMissing

Handle = Callable[[Any], None]
"""What a worker does with the body of an item."""

Figures = dict[str, float]

SPARE = 1.5  # a queue is filled with more than will be worked off in the time


class QueuePlayer:
    """What all players share.

    ``client`` names libraries with their versions, ``durability`` what a push survives.
    ``pace`` is the rate to expect of workers, until one was measured.
    """

    client = ""
    durability = ""
    pace = 2_000.0
    warm = 200  # items before time counts

    def __init__(self, where: str) -> None:
        self.where = where
        self.bodies = pool()

    def renew(self) -> None:
        """Start with a new queue, where what was taken would otherwise be in the way."""

    def fill(self, count: int) -> None:
        """Push so many items, as fast as it can be done."""
        raise NotImplementedError  # each peer has its own way

    def enough(self, seconds: float) -> int:
        """As many items as will do for that long."""
        return 2 * self.warm + int(self.pace * seconds * SPARE)

    def noted(self, pace: Pace) -> Figures:
        """The figures; the next filling goes by them."""
        figures = pace.figures()
        self.pace = figures["rate"]
        return figures

    def slices(self, size: int) -> Iterator[list[Any]]:
        return slices(self.bodies, size)

    def fillings(self, count: int, size: int = 1000) -> Iterator[list[Any]]:
        """``count`` bodies, ``size`` at a time."""
        batches = self.slices(size)
        for start in range(0, count, size):
            yield next(batches)[: count - start]


class BlockingPlayer(QueuePlayer):
    """A peer with a blocking client: ``push`` and ``take`` are all it needs to have."""

    def push(self, bodies: list[Any]) -> None:
        """Push items in one call, as the peer has it."""
        raise NotImplementedError  # each peer has its own way

    def take(self, size: int) -> int:
        """Claim and settle up to ``size`` items, parsed; how many there were."""
        raise NotImplementedError  # each peer has its own way

    def fill(self, count: int) -> None:
        for bodies in self.fillings(count):
            self.push(bodies)

    def send(self, **marks: Any) -> None:
        """Push one item that carries the time."""
        self.push([stamped(marks)])

    def push_rate(self, size: int, seconds: float) -> Figures:
        batches = self.slices(size)
        self.push(next(batches))
        gc.collect()
        pace = Pace(seconds, 0)
        while not pace.is_over:
            self.push(next(batches))
            pace.count(size)
        return pace.figures()

    def take_rate(self, size: int, seconds: float, waiting: int = 0) -> Figures:
        """Items taken a second; if ``waiting`` is given no more than that wait at a time."""
        self.renew()
        pace = Pace(seconds, self.warm)
        while not pace.is_over:
            with pace.paused():
                self.fill(waiting or self.enough(seconds) + size)
            while not pace.is_over and (taken := self.take(size)):
                pace.count(taken)
        return self.noted(pace)


class AwaitingPlayer(QueuePlayer):
    """The same for an asyncio client. ``runner`` runs all of it in one loop."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.runner = asyncio.Runner()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(coroutine)

    async def push(self, bodies: list[Any]) -> None:
        """Push items in one call, as the peer has it."""
        raise NotImplementedError  # each peer has its own way

    async def take(self, size: int) -> int:
        """Claim and settle up to ``size`` items, parsed; how many there were."""
        raise NotImplementedError  # each peer has its own way

    def fill(self, count: int) -> None:
        for bodies in self.fillings(count):
            self.run(self.push(bodies))

    def send(self, **marks: Any) -> None:
        self.run(self._send(marks))

    async def _send(self, marks: dict[str, Any]) -> None:
        await self.push([stamped(marks)])

    def push_rate(self, size: int, seconds: float) -> Figures:
        figures: Figures = self.run(self._push_rate(size, seconds))
        return figures

    async def _push_rate(self, size: int, seconds: float) -> Figures:
        # One coroutine for all pushes: starting the loop for each would cost the peer.
        batches = self.slices(size)
        await self.push(next(batches))
        gc.collect()
        pace = Pace(seconds, 0)
        while not pace.is_over:
            await self.push(next(batches))
            pace.count(size)
        return pace.figures()

    def take_rate(self, size: int, seconds: float) -> Figures:
        self.fill(self.enough(seconds) + size)
        figures: Figures = self.run(self._take_rate(size, seconds))
        return figures

    async def _take_rate(self, size: int, seconds: float) -> Figures:
        pace = Pace(seconds, self.warm)
        while not pace.is_over and (taken := await self.take(size)):
            pace.count(taken)
        return self.noted(pace)


class Pace:
    """Counts items until it is enough; the first ``warm`` items start the clock.

    ``most`` is how many there are: it is over too when all are counted.
    """

    def __init__(self, seconds: float, warm: int, most: int | None = None) -> None:
        self._seconds = seconds
        self._warm = warm
        self._most = most
        self.counted = 0
        self._start = self._last = time.perf_counter()
        self._cpu_start = time.process_time()
        self._cpu_end = 0.0
        self.is_over = False

    def count(self, items: int = 1) -> bool:
        """Count some more; whether it is over."""
        if self.is_over:
            return True
        self._last = time.perf_counter()
        if self.counted < self._warm:
            self._start, self._cpu_start = self._last, time.process_time()
            self._warm = max(self._warm, self.counted + items)
        self.counted += items
        is_late = self.counted >= self._warm and self._last - self._start >= self._seconds
        if is_late or (self._most is not None and self.counted >= self._most):
            self._cpu_end = time.process_time()
            self.is_over = True
        return self.is_over

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is done inside does not count."""
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self._start += time.perf_counter() - start
        self._cpu_start += time.process_time() - cpu

    def figures(self) -> Figures:
        """Items a second from the end of the warm-up to the last; this process's CPU for each."""
        items = self.counted - self._warm
        if items <= 0:
            raise RuntimeError(f"only {self.counted} items were worked off")
        cpu = (self._cpu_end or time.process_time()) - self._cpu_start
        return {"rate": items / (self._last - self._start), "client cpu": cpu / items * 1e6}


def stamped(marks: dict[str, Any]) -> dict[str, Any]:
    """A body that says when it was made."""
    return {**marks, "sent": time.monotonic_ns()}


def libraries(*names: str) -> str:
    """Libraries with the versions that are installed."""
    return ", ".join(f"{name} {version(name)}" for name in names)


def new_file(folder: str) -> str:
    """A name that is not taken in a folder."""
    Path(folder).mkdir(exist_ok=True)
    return str(Path(folder) / f"{time.monotonic_ns()}.db")


def _answer(player: Any, answers: TextIO, do: str, **options: Any) -> Any:
    if do == "serve":
        return _serve(player, answers)
    if do != "send":
        gc.collect()
    return getattr(player, do)(**options)


def _serve(player: Any, answers: TextIO) -> None:
    """Work until killed; a line for each item says how long it was on its way."""

    def handle(body: Any) -> None:
        received = time.monotonic_ns()  # CLOCK_MONOTONIC is the same in all processes
        _say(answers, latency=received - body["sent"], warm=body["warm"])

    _say(answers, value=None)
    player.serve(handle)


def _say(answers: TextIO, **line: Any) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


def main(module: str, where: str) -> None:
    # Only answers go to the standard output, whatever a peer's library prints.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        player = importlib.import_module(module).Player(where)
    except Exception as error:
        is_said = isinstance(error, PeerMissing)
        _say(answers, error=str(error) if is_said else f"{type(error).__name__}: {error}")
        return
    _say(answers, client=player.client, durability=player.durability)
    gc.freeze()  # the bodies are not garbage, and need not be looked at again and again
    for line in sys.stdin:
        try:
            _say(answers, value=_answer(player, answers, **json.loads(line)))
        except Exception as error:
            _say(answers, error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*islice(sys.argv, 1, None))
