"""The waiters of this process, and how they are woken."""

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

from headrace.model import forks

POLL = 0.25
SURE_POLL = 1.0
RETRY = 5.0


class Source(Protocol):
    """Hints from other processes, as a file descriptor that becomes readable."""

    @property
    def is_sure(self) -> bool:
        """Whether it is proven to receive every hint: then a waiter polls rarely."""
        ...

    def fileno(self) -> int:
        """The descriptor to wait on."""
        ...

    def drain(self) -> bool:
        """Read all hints without blocking; returns whether one may concern the waiter.

        Raises ``OSError`` if the source is dead.
        """
        ...

    def keep(self) -> bool:
        """Do periodic upkeep; returns whether a hint arrived meanwhile.

        Raises ``OSError`` if the source is dead.
        """
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Notifier:
    """The waiters of one store in this process."""

    def __init__(self) -> None:
        self._forget()
        forks.renew_in_child(self, Notifier._forget)

    def _forget(self) -> None:
        # A child starts without waiters: the parent wakes its own.
        self._lock = threading.Lock()
        self._waiters: set[NotifierWaiter] = set()

    def notify(self, topics: Iterable[str]) -> None:
        """Wake the waiters for one of these topics. Costs nothing when there are none."""
        if not self._waiters:
            return
        named = set(topics)
        with self._lock:
            woken = [waiter for waiter in self._waiters if waiter.topic in named]
        for waiter in woken:
            waiter.wake()

    def attach(self, waiter: NotifierWaiter) -> None:
        with self._lock:
            self._waiters.add(waiter)

    def detach(self, waiter: NotifierWaiter) -> None:
        with self._lock:
            self._waiters.discard(waiter)


_notifiers: WeakValueDictionary[str, Notifier] = WeakValueDictionary()
_notifiers_lock = forks.ModuleLock()


def shared_notifier(place: str) -> Notifier:
    """The notifier of a store, shared by all its clients in this process."""
    with _notifiers_lock.lock:
        return _notifiers.setdefault(place, Notifier())


class WakePipe:
    """Ends a wait in ``poll`` or on an event loop, from another thread or a signal handler.

    A descriptor is written and read under a lock, and never once it is closed: its number may
    belong to a database file or a connection by then.
    """

    def __init__(self) -> None:
        self._reading: int | None
        self._writing: int | None
        # Child programs do not inherit them. macOS has no pipe2, which could also set the flags.
        self._reading, self._writing = os.pipe()
        for descriptor in (self._reading, self._writing):
            os.set_blocking(descriptor, False)
        self._renew_lock()
        forks.renew_in_child(self, WakePipe._renew_lock)

    def _renew_lock(self) -> None:
        # A signal handler may wake in the middle of a wake of the same thread.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        return -1 if self._reading is None else self._reading

    def wake(self) -> None:
        # BlockingIOError: plenty of wake-ups are waiting already.
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._writing is not None:
                os.write(self._writing, b"\0")

    def drain(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._reading is not None:
                os.read(self._reading, 4096)

    def close(self) -> None:
        with self._lock:
            descriptors = (self._reading, self._writing)
            self._reading = self._writing = None
            for descriptor in descriptors:
                if descriptor is not None:
                    os.close(descriptor)


class NotifierWaiter:
    """A thread or a task that waits for records of a topic."""

    def __init__(
        self, notifier: Notifier, topic: str, open_source: Callable[[], Source | None] | None
    ) -> None:
        self.topic = topic
        self._notifier = notifier
        self._open_source = open_source
        self._source: Source | None = None
        self._retry_at = 0.0
        self._ensure_source()
        self._pipe = WakePipe()
        notifier.attach(self)

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._pipe.wake()

    def wait(self, seconds: float) -> bool:
        """Wait for a hint, or until the next poll is due; returns whether a hint came."""
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
        """The same as ``wait``, for a task."""
        end = time.monotonic() + min(seconds, self._longest())
        while True:
            readable = await self._readable(max(0.0, end - time.monotonic()))
            if self._drain(readable):
                return True
            if time.monotonic() >= end:
                return False

    async def _readable(self, seconds: float) -> Collection[int]:
        """Wait until a descriptor is readable; returns all that are."""
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
        found = [self._pipe.fileno()]
        if self._source is not None:
            found.append(self._source.fileno())
        return found

    def _drain(self, readable: Collection[int]) -> bool:
        """Read the hints that have arrived; returns whether one concerns this waiter.

        Hints left unread only make the next wait end immediately.
        """
        is_ours = self._pipe.fileno() in readable
        if is_ours:
            self._pipe.drain()
        if self._source is None:
            self._ensure_source()
            return is_ours
        try:
            if self._source.fileno() in readable:
                is_ours = self._source.drain() or is_ours
            else:
                is_ours = self._source.keep() or is_ours
        except OSError:
            # Polling every POLL seconds is good enough until the source is back.
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
        self._notifier.detach(self)
        if self._source is not None:
            self._source.close()
            self._source = None
        self._pipe.close()
