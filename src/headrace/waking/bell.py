"""Who waits in this process, and how they are woken."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Protocol
from weakref import WeakValueDictionary

POLL = 0.25
SURE_POLL = 1.0
RETRY = 5.0


class Source(Protocol):
    """Hints from other processes, as a file descriptor that becomes readable."""

    @property
    def is_sure(self) -> bool:
        """Whether it is proven that it hears of everything: then a look now and then will do."""
        ...

    def fileno(self) -> int:
        """The descriptor to wait on."""
        ...

    def drain(self) -> bool:
        """Take what has come, without blocking, and say whether it may be for who waits here;
        ``OSError`` if the source is dead."""
        ...

    def keep(self) -> bool:
        """Do what it needs from time to time, and say whether a hint came by that; ``OSError`` if
        the source is dead."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Bell:
    """The waiters of one store in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()

    def ring(self, topics: Iterable[str]) -> None:
        """Wake those who wait for one of these topics. Costs nothing when nobody waits."""
        if not self._waiters:
            return
        named = set(topics)
        with self._lock:
            woken = [waiter for waiter in self._waiters if waiter.topic in named]
        for waiter in woken:
            waiter.wake()

    def attach(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters.add(waiter)

    def detach(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters.discard(waiter)


_bells: WeakValueDictionary[tuple[int, str], Bell] = WeakValueDictionary()
_bells_lock = threading.Lock()


def bell(place: str) -> Bell:
    """The bell of a store, the same for all its clients in this process."""
    with _bells_lock:
        return _bells.setdefault((os.getpid(), place), Bell())


class Waiter:
    """One who waits for records of a topic, in a thread or in a task."""

    def __init__(
        self, ringer: Bell, topic: str, open_source: Callable[[], Source | None] | None
    ) -> None:
        self.topic = topic
        self._bell = ringer
        self._open_source = open_source
        self._source: Source | None = None
        self._retry_at = 0.0
        self._ensure_source()
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        ringer.attach(self)

    def wake(self) -> None:
        """End the wait, or the next one."""
        try:
            os.write(self._writing, b"\0")
        except BlockingIOError:
            pass  # plenty of wake-ups are waiting already
        except OSError:
            pass  # closed meanwhile

    def wait(self, seconds: float) -> bool:
        """Wait for a hint, or until it is time for a look; whether a hint came."""
        end = time.monotonic() + min(seconds, self._longest())
        while True:
            poller = select.poll()
            for descriptor in self._descriptors():
                poller.register(descriptor, select.POLLIN)
            hints = poller.poll(max(0.0, end - time.monotonic()) * 1000)
            if self._drain([descriptor for descriptor, _ in hints]):
                return True
            if time.monotonic() >= end:
                return False

    async def await_hint(self, seconds: float) -> bool:
        """``wait`` for a task."""
        end = time.monotonic() + min(seconds, self._longest())
        while True:
            readable = await self._readable(max(0.0, end - time.monotonic()))
            if self._drain(readable):
                return True
            if time.monotonic() >= end:
                return False

    async def _readable(self, seconds: float) -> Collection[int]:
        """The descriptors that have something, as soon as one has."""
        loop = asyncio.get_running_loop()
        hint = asyncio.Event()
        found: set[int] = set()

        def note(descriptor: int) -> None:
            found.add(descriptor)
            hint.set()

        descriptors = self._descriptors()
        for descriptor in descriptors:
            loop.add_reader(descriptor, note, descriptor)
        try:
            async with asyncio.timeout(seconds):
                await hint.wait()
        except TimeoutError:
            pass
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
        return found

    def _longest(self) -> float:
        is_sure = self._source is not None and self._source.is_sure
        return SURE_POLL if is_sure else POLL

    def _descriptors(self) -> list[int]:
        found = [self._reading]
        if self._source is not None:
            found.append(self._source.fileno())
        return found

    def _drain(self, readable: Collection[int]) -> bool:
        """Take what has come, and say whether it is for us; what is left, if there is more, only
        ends the next wait at once."""
        is_ours = self._reading in readable
        if is_ours:
            with contextlib.suppress(BlockingIOError):
                os.read(self._reading, 4096)
        if self._source is None:
            self._ensure_source()
            return is_ours
        try:
            if self._source.fileno() in readable:
                is_ours = self._source.drain() or is_ours
            else:
                is_ours = self._source.keep() or is_ours
        except OSError:
            # Looking every POLL seconds is good enough until it is back.
            self._source.close()
            self._source = None
        return is_ours

    def _ensure_source(self) -> None:
        if self._open_source is None or time.monotonic() < self._retry_at:
            return
        self._retry_at = time.monotonic() + RETRY
        try:
            self._source = self._open_source()
        except OSError:
            self._source = None

    def close(self) -> None:
        self._bell.detach(self)
        if self._source is not None:
            self._source.close()
            self._source = None
        os.close(self._reading)
        os.close(self._writing)
