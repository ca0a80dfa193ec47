"""Words that a node waits for, and all that listen to them.

Each word (a topic, or ``queue/<name>``) has one waiter on the store, in a thread, for all listeners:
waiters of databases may block for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from headrace.contract.store import Store, Waiter
from headrace.contract.threads import in_thread
from headrace.errors import HeadraceError, UnsupportedStore
from headrace.model.failures import words_of

POLL_SECONDS = 1.0
_log = logging.getLogger("headrace.node")


class WordListener:
    """``news`` is set when there may be something new; ``is_ready`` once nothing is missed.

    A listener that ``polls`` also has news when it is time to look: notifications may be lost, or
    come from no other process at all.
    """

    def __init__(self, *, polls: bool) -> None:
        self.news = asyncio.Event()
        self.polls = polls


class Words:
    """Listens to words of a store. For the node's event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._words: dict[str, _Word] = {}
        # Words that nobody listens to, whose threads may not have ended yet.
        self._ending: list[_Word] = []

    @contextmanager
    def listening(
        self, word: str, *, polls: bool = False
    ) -> Iterator[tuple[WordListener, asyncio.Event]]:
        """A listener, and the event from which on it misses nothing."""
        listened = self._words.get(word)
        if listened is None:
            listened = self._words[word] = _Word(self._store, word)
        listener = WordListener(polls=polls)
        listened.listeners.add(listener)
        try:
            yield listener, listened.is_ready
        finally:
            listened.listeners.discard(listener)
            if not listened.listeners and self._words.get(word) is listened:
                del self._words[word]
                listened.end()
                self._ending = [*filter(_Word.is_alive, self._ending), listened]

    def waiter(self, word: str) -> Waiter:
        """A waiter for one task; many cost no more than one."""
        return _SharedWaiter(self.listening(word, polls=True))

    def close(self) -> None:
        """End all waiters."""
        for listened in self._words.values():
            listened.end()

    async def aclose(self) -> None:
        """End all waiters, and wait for their threads: the store may be closed next."""
        self.close()
        for listened in [*self._words.values(), *self._ending]:
            await in_thread(listened.join)


class _SharedWaiter:
    """A waiter for a task of the event loop, beside others for the same word."""

    def __init__(
        self, listening: AbstractContextManager[tuple[WordListener, asyncio.Event]]
    ) -> None:
        self._listening = listening
        self._listener, self._is_ready = listening.__enter__()
        self._was_ready = False

    def wait(self, seconds: float) -> NoReturn:
        raise UnsupportedStore("a node waits on its event loop only.")

    async def await_hint(self, seconds: float) -> bool:
        event = self._listener.news if self._was_ready else self._is_ready
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        # What came before it was ready has not been noticed.
        self._was_ready = True
        self._listener.news.clear()
        return True

    def wake(self) -> None:
        self._listener.news.set()

    def close(self) -> None:
        self._listening.__exit__(None, None, None)


class _Word:
    """A word, and the thread that waits for it."""

    def __init__(self, store: Store, word: str) -> None:
        self.listeners: set[WordListener] = set()
        self.is_ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._word = word
        self._has_ended = False
        self._waiter: Waiter | None = None
        self._thread = threading.Thread(target=self._wait, name=f"headrace-{word}", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        while not self._has_ended:
            try:
                self._wait_for_store()
            except (HeadraceError, OSError) as error:
                # Clients look from time to time all the same.
                _log.warning("%r is polled: %s", self._word, words_of(error))
                self._call(self.is_ready.set)
                self._call(self._poll)
                time.sleep(POLL_SECONDS)

    def _wait_for_store(self) -> None:
        waiter = self._waiter = self._store.waiter(self._word)
        try:
            self._call(self.is_ready.set)
            while not self._has_ended:
                self._call(self._notify if waiter.wait(POLL_SECONDS) else self._poll)
        finally:
            waiter.close()

    def _call(self, function: Any) -> None:
        # The loop may be closed by now: the node has ended, and its clients with it.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def _notify(self) -> None:
        for listener in self.listeners:
            listener.news.set()

    def _poll(self) -> None:
        for listener in self.listeners:
            if listener.polls:
                listener.news.set()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def end(self) -> None:
        """End the thread; it closes its waiter."""
        self._has_ended = True
        if self._waiter is not None:
            self._waiter.wake()
