"""Access tokens as a node remembers them: for 30 seconds, or until one is revoked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from headrace.contract.store import Store, Waiter
from headrace.contract.threads import in_thread
from headrace.contract.tokens import TOKENS_CHANGED, TOUCH_MS
from headrace.errors import HeadraceError, UnknownToken
from headrace.model.access_tokens import AccessToken
from headrace.model.failures import words_of
from headrace.model.scopes import parse_scopes
from headrace.node.guard import RequestIdentity
from headrace.node.shutdown import Closing

CACHE_SECONDS = 30.0
POLL_SECONDS = 1.0
MAX_TOKENS = 10_000
MAX_LOOKUPS = 16
"""How many look-ups run at the same time: guesses must not keep others from the store."""
_log = logging.getLogger("headrace.node")


class KnownToken(NamedTuple):
    """A token, the identity of its users, and when the node must look it up again."""

    token: AccessToken
    identity: RequestIdentity
    until: float


class TokenCache:
    """Looks tokens up in the store, and notes their use there.

    A notification ends what is remembered, where the store has notifications between processes.
    Everywhere else a revoked token is refused after ``CACHE_SECONDS``.
    """

    def __init__(
        self, store: Store, closing: Closing, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._closing = closing
        self._clock = clock
        self._known: dict[str, KnownToken] = {}
        self._lookups: dict[str, asyncio.Task[KnownToken | None]] = {}
        self._slots = asyncio.Semaphore(MAX_LOOKUPS)
        # Counts revocations: a look-up that began before one must not be remembered.
        self._revocations = 0
        self._used: set[str] = set()
        self._waiter: Waiter | None = None
        self._thread = threading.Thread(target=self._watch, name="headrace-tokens", daemon=True)
        self._keeper: asyncio.Task[None] | None = None

    async def find(self, id: str) -> KnownToken | None:
        """The token with this id; None if there is none."""
        known = self._known.get(id)
        if known is None or known.until <= self._clock():
            known = await self._shared_lookup(id)
        return known

    def note_use(self, id: str) -> None:
        """Remember that a token was used, until the store knows it."""
        self._used.add(id)

    def forget(self) -> None:
        """Look all tokens up again."""
        self._revocations += 1
        self._known.clear()

    async def _shared_lookup(self, id: str) -> KnownToken | None:
        """Look a token up; requests that need the same one share the look-up."""
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(self._keep())
        lookup = self._lookups.get(id)
        if lookup is None:
            lookup = self._lookups[id] = asyncio.ensure_future(self._look_up(id))
            lookup.add_done_callback(lambda _: self._lookups.pop(id, None))
        return await asyncio.shield(lookup)

    async def _look_up(self, id: str) -> KnownToken | None:
        async with self._slots:
            while True:
                revocations = self._revocations
                try:
                    token = await self._store.arun(self._store.tokens.info(id))
                except UnknownToken:
                    return None
                if revocations == self._revocations:
                    break
        identity = RequestIdentity(token.id, parse_scopes(token.scopes), token.name)
        known = KnownToken(token, identity, self._clock() + CACHE_SECONDS)
        self._known.pop(id, None)
        while len(self._known) >= MAX_TOKENS:
            del self._known[next(iter(self._known))]
        self._known[id] = known
        return known

    async def aclose(self) -> None:
        """Wait for everything that was started, once the node is stopping. The store may close."""
        assert self._closing.has_begun
        if self._keeper is not None:
            await self._keeper
            await in_thread(self._thread.join)

    async def _keep(self) -> None:
        """Note which tokens were used, each minute until the node ends."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        while not self._closing.has_begun:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TOUCH_MS / 1000):
                    await self._closing.wait()
            await self._touch()
        if self._waiter is not None:
            self._waiter.wake()

    def _watch(self) -> None:
        """Forget tokens when one is revoked; in a thread, since waiters may block for a moment."""
        while not self._closing.has_begun:
            try:
                self._watch_store()
            except (HeadraceError, OSError) as error:
                # Tokens are looked up again every 30 seconds all the same.
                _log.warning("revocations may be noticed late: %s", words_of(error))
                time.sleep(POLL_SECONDS)

    def _watch_store(self) -> None:
        waiter = self._waiter = self._store.waiter(TOKENS_CHANGED)
        try:
            # Revocations before the waiter was there have not been noticed.
            is_woken = True
            while not self._closing.has_begun:
                # The loop may be closed by now: the node has ended.
                if is_woken:
                    with contextlib.suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self.forget)
                is_woken = waiter.wait(POLL_SECONDS)
        finally:
            waiter.close()

    async def _touch(self) -> None:
        used, self._used = sorted(self._used), set()
        if not used:
            return
        try:
            await self._store.arun(self._store.tokens.touch(used))
        except HeadraceError as error:
            _log.debug("the last use of tokens was not noted: %s", words_of(error))
