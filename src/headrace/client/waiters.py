"""Waits for notifications: how long they last and how often they poll."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from headrace.contract.blocks import Block, block, during
from headrace.contract.items import ClaimResponse
from headrace.contract.store import Store, Waiter
from headrace.errors import WaitTimeout
from headrace.model import forks
from headrace.model.checks import seconds
from headrace.model.locks import CLIENT_CHARS
from headrace.model.queues.settings import capacity_word
from headrace.model.tokens import claim_token

if TYPE_CHECKING:
    import asyncio

FIRST_PAUSE = 0.002
MAX_PAUSE_SECONDS = 0.1
MAX_WAIT_SECONDS = 3600.0
# How often a waiter for capacity polls without a notification: a limit over several queues may
# get free slots in another one.
MAX_POLL_SECONDS = 1.0


class Wait:
    """Pauses that grow until the time is over."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        self._give_up = None if timeout is None else time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def pause(self, behind: Sequence[str]) -> float:
        """How long to sleep before the next poll; ``WaitTimeout`` when the time is over."""
        pause = self._pause
        self._pause = min(pause * 2, MAX_PAUSE_SECONDS)
        if self._give_up is None:
            return pause
        left = self._give_up - time.monotonic()
        if left <= 0:
            raise WaitTimeout(
                f"after {self._timeout:g} s these procs have not caught up: {', '.join(behind)}. "
                "Run them, or check their lag.",
                procs=list(behind),
            )
        return min(pause, left)


class LineWaiter:
    """A waiter, in a thread or in a task, perhaps behind others that wait for the same thing.

    Only the first of them polls the store. It is woken by what is announced, and from time to
    time. When it leaves, the next one polls; it need not if the first one says that nothing is
    left for others now.
    """

    def __init__(self, line: _Line, opened: object, tag: str) -> None:
        self.opened = opened
        self.tag = tag
        self._line = line
        self.leaves_nothing = False
        # Whether it shall poll, or only see that it is the first now.
        self._woken: SimpleQueue[bool] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None

    def wake(self, *, polls: bool = True) -> None:
        """End the wait, or the next one. Under the lock, as all that changes a line."""
        self._woken.put(polls)
        if self._loop is not None and self._event is not None:
            # A loop that is closed has no waiters.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._event.set)

    def wait(self, seconds: float, longest: float | None = None) -> None:
        """Wait until it is time to poll: for so long, or ``longest`` behind others."""
        end = time.monotonic() + (seconds if longest is None else longest)
        while True:
            is_first = self._line.is_first(self)
            if self._is_woken():
                return
            if is_first:
                if waiter := self._line.open():
                    waiter.wait(seconds)
                return
            left = end - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(Empty):
                if self._woken.get(timeout=min(left, MAX_POLL_SECONDS)):
                    return

    async def await_hint(self, seconds: float, longest: float | None = None) -> None:
        """``wait`` for a task."""
        import asyncio  # blocking programs do not load it

        end = time.monotonic() + (seconds if longest is None else longest)
        self._loop = asyncio.get_running_loop()
        while True:
            event = self._event = asyncio.Event()
            is_first = self._line.is_first(self)
            if self._is_woken():
                return
            if is_first:
                if waiter := self._line.open():
                    await waiter.await_hint(seconds)
                return
            left = end - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, MAX_POLL_SECONDS)):
                    await event.wait()

    def tags(self) -> list[str]:
        """What all in the line are known by, the first one first."""
        return self._line.tags()

    def let_pass(self, tag: str | None) -> None:
        """Let the one that is known by this be the first, if it is in the line."""
        self._line.put_first(tag)

    def is_due(self, every: float) -> bool:
        """Whether it is so long since this was last true for one of the line."""
        return self._line.is_due(every)

    def _is_woken(self) -> bool:
        """Whether it was woken to poll since it was last asked."""
        is_woken = False
        with contextlib.suppress(Empty):
            while True:
                is_woken = self._woken.get_nowait() or is_woken
        return is_woken


class _Line:
    """The waiters of a client for the same thing, in the order in which they came."""

    def __init__(self, waits: Waiters, word: str) -> None:
        self._waits = waits
        self._word = word
        self._members: dict[LineWaiter, None] = {}
        self._waiter: Waiter | None = None
        self._due_at = time.monotonic()

    def add(self, member: LineWaiter) -> None:
        self._members[member] = None

    def first(self) -> LineWaiter | None:
        """Under the lock. Those whom a signal kept from leaving do not count."""
        is_open = self._waits.is_open
        return next((member for member in self._members if is_open(member)), None)

    def is_first(self, member: LineWaiter) -> bool:
        with self._waits.lock:
            return self.first() is member

    def remove(self, leaving: LineWaiter) -> LineWaiter | None:
        """Under the lock: wake the next one if the first leaves; the one that is first now."""
        was_first = self.first() is leaving
        is_open = self._waits.is_open
        left = [member for member in self._members if member is not leaving and is_open(member)]
        self._members = dict.fromkeys(left)
        heir = self.first()
        if heir is not None and was_first:
            heir.wake(polls=not leaving.leaves_nothing)
        return heir

    def put_first(self, tag: str | None) -> None:
        with self._waits.lock:
            member = next((one for one in self._members if one.tag == tag), None)
            if tag is not None and member is not None and member is not self.first():
                self._members = dict.fromkeys([member, *self._members])
                member.wake()

    def tags(self) -> list[str]:
        with self._waits.lock:
            return [member.tag for member in self._members]

    def is_due(self, every: float) -> bool:
        now = time.monotonic()
        is_due = now >= self._due_at + every
        if is_due:
            self._due_at = now
        return is_due

    def open(self) -> Waiter | None:
        """What the first one waits with. None if there was none yet: then the caller checks
        for news that came before."""
        waiter = self._waiter
        if waiter is None:
            self._waiter = self._waits.make(self._word)
        return waiter

    def wake(self) -> None:
        """Under the lock: end the wait of the first one."""
        if self._waiter is not None:
            self._waiter.wake()

    def close(self) -> None:
        """No waiter is left, and none can find it."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()


class Waiters:
    """All waiters of a client, for items or for a lock, so that they can be ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forget()
        forks.renew_in_child(self, Waiters._forget)

    def _forget(self) -> None:
        self.lock = threading.Lock()
        # How sessions of this client are known among those that wait for a lock.
        self.name = claim_token()[:CLIENT_CHARS]
        self._lines: dict[tuple[str, object], _Line] = {}
        self._waiters: dict[LineWaiter, str] = {}
        # Each from before it is in a line until after it has left that.
        self._open: dict[object, None] = {}

    def make(self, word: str) -> Waiter:
        """Something to wait with for what is announced by a word."""
        return self._store.waiter(word)

    def is_open(self, member: LineWaiter) -> bool:
        """Whether it waits, or is about to leave."""
        return member.opened in self._open

    def waiting(self, queue: str, key: object = None) -> AbstractContextManager[LineWaiter]:
        """A waiter for items of a queue."""
        return self.listening(f"queue/{queue}", key)

    @block
    def listening(self, word: str, key: object = None, tag: str = "") -> Block:
        """A waiter for what is announced by a word.

        Those with the same ``key`` want the same: if the first of them does not get it, neither
        do the others. Without a key it waits for itself alone.
        """
        opened = object()
        place = (word, opened if key is None else key)
        member: LineWaiter | None = None
        try:
            self._open[opened] = None
            with self.lock:
                line = self._lines.get(place)
                if line is None:
                    line = self._lines[place] = _Line(self, word)
                member = LineWaiter(line, opened, tag)
                line.add(member)
                self._waiters[member] = word
            yield from during(member)
        finally:
            try:
                if member is not None:
                    self._leave(place, member)
            finally:
                self._open.pop(opened, None)

    def _leave(self, place: tuple[str, object], member: LineWaiter) -> None:
        with self.lock:
            self._waiters.pop(member, None)
            line = self._lines[place]
            is_empty = line.remove(member) is None
            if is_empty:
                # Out of reach first: a wake-up must not go to a descriptor that was reused.
                del self._lines[place]
        if is_empty:
            line.close()

    def wake(self, queue: str | None = None) -> None:
        """Let the waiters for a queue, or all, check whether to go on."""
        words = (f"queue/{queue}", capacity_word(queue)) if queue is not None else ()
        with self.lock:
            for member, word in self._waiters.items():
                if queue is None or word in words:
                    member.wake()
            for (word, _), line in self._lines.items():
                if queue is None or word in words:
                    line.wake()

    def end(self) -> None:
        """Wake all and wait until they have left: they must not use a store that is closed."""
        while self._open:
            self.wake()
            time.sleep(FIRST_PAUSE)

    async def aend(self) -> None:
        """``end`` for the tasks of an event loop."""
        import asyncio

        while self._open:
            self.wake()
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

    def pause(self, response: ClaimResponse) -> float:
        """Until something is due, or there is no time left."""
        pause = MAX_WAIT_SECONDS
        if response.next_due is not None:
            pause = min(pause, max(response.next_due - response.now, 1) / 1000)
        return self.at_most(pause)
