"""How long a wait lasts and how often it looks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.contract.items import Taking
from headrace.contract.store import Store, Waiter
from headrace.errors import WaitTimeout
from headrace.model.checks import seconds
from headrace.model.queues import room_word

FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1
LONGEST_WAIT = 3600.0
# How often whoever waits for room looks for it even if nobody tells: limits over several queues
# may let go of it elsewhere.
LONGEST_LOOK = 1.0


class Wait:
    """Pauses that grow until the time is over."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        self._give_up = None if timeout is None else time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def pause(self, behind: Sequence[str]) -> float:
        """How long to sleep before the next look; ``WaitTimeout`` when there is no time left."""
        pause = self._pause
        self._pause = min(pause * 2, LONGEST_PAUSE)
        if self._give_up is None:
            return pause
        left = self._give_up - time.monotonic()
        if left <= 0:
            raise WaitTimeout(
                f"after {self._timeout:g} s these procs have not caught up: {', '.join(behind)}. "
                "Somebody must run them; look at their lag.",
                procs=list(behind),
            )
        return min(pause, left)


class Waits:
    """Whoever waits in a client, for items or for a lock, so that they can be ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._waiters: dict[Waiter, str] = {}
        self._open = 0

    @contextmanager
    def waiting(self, queue: str) -> Iterator[Waiter]:
        """One who waits for items of a queue."""
        with self.listening(f"queue/{queue}") as waiter:
            yield waiter

    @contextmanager
    def listening(self, word: str) -> Iterator[Waiter]:
        """One who waits for what is announced by a word."""
        waiter = self._store.waiter(word)
        with self._lock:
            self._waiters[waiter] = word
            self._open += 1
        try:
            yield waiter
        finally:
            # Out of reach first: a wake-up must not go to a descriptor that is somebody else's.
            with self._lock:
                del self._waiters[waiter]
            waiter.close()
            with self._left:
                self._open -= 1
                self._left.notify_all()

    def wake(self, queue: str | None = None) -> None:
        """Let those who wait for a queue (or for any) look whether they still should."""
        with self._lock:
            for waiter, word in self._waiters.items():
                if queue is None or word in (f"queue/{queue}", room_word(queue)):
                    waiter.wake()

    def end(self) -> None:
        """Wake all and wait until they have left: they must not use a store that is closed."""
        self.wake()
        with self._left:
            self._left.wait_for(lambda: not self._open)

    async def aend(self) -> None:
        """``end`` for the tasks of an event loop."""
        self.wake()
        while self._open:
            await asyncio.sleep(FIRST_PAUSE)


class Deadline:
    """How long a claim may wait for items; None is for ever."""

    def __init__(self, wait: float | None) -> None:
        self._end = None if wait is None else time.monotonic() + seconds("wait", wait)

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def at_most(self, pause: float) -> float:
        """So long, or until there is no time left."""
        return pause if self._end is None else min(pause, max(self._end - time.monotonic(), 0.0))

    def pause(self, taking: Taking) -> float:
        """Until something is due, or there is no time left."""
        pause = LONGEST_WAIT
        if taking.next_due is not None:
            pause = min(pause, max(taking.next_due - taking.now, 1) / 1000)
        return self.at_most(pause)
