"""Slots: what user code counts beside running items, under the same limits."""

from __future__ import annotations

# SYNC
# from headrace.contract.blocks import Block, during
# END
import contextlib
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from msgspec import UNSET, UnsetType

from headrace.client._runtime.aio import AsyncMutex, AsyncScope
from headrace.client.lock_view import wait_seconds
from headrace.client.slots_view import Pauses, SlotsView, asking
from headrace.contract.counters import FREE_SLOTS, CounterAnswer
from headrace.contract.shield import finish
from headrace.core.counters import CounterInfo
from headrace.core.requests.counters import MAX_COUNTERS, adding, listing, setting
from headrace.core.requests.request import Request
from headrace.errors import HeadraceError, SlotsLost
from headrace.model.error_messages import slots_lost
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.times import Duration, duration_ms

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


Infos = list[CounterInfo]


class AsyncSlots(AsyncScope, SlotsView):
    """Slots to be acquired, in a ``with`` block or by hand.

    >>> async with hr.slots({"api": "maps"}, lease="30s", wait=10):
    ...     call_the_api()
    """

    def __init__(
        self, client: AsyncClient, key_values: Mapping[str, Any], n: int, **how: Any
    ) -> None:
        super().__init__(key_values, n, **how)
        self._client = client
        # A heartbeat that is under way must not find slots that are being released.
        self._mutex = AsyncMutex()

    async def acquire(self, wait: float | UnsetType | None = UNSET) -> Self:
        """Acquire the slots: ``LimitReached`` when that takes longer than ``wait``.

        ``wait`` is in seconds, 0 for not at all, None for ever; as the slots were made with unless
        given. Slots that are held already stay as they are.
        """
        if self.held:
            return self
        pause = Pauses(self.wait if wait is UNSET else wait_seconds(wait))
        if self._is_held:
            # Lost as far as we know; what the store may still count is released.
            with contextlib.suppress(HeadraceError):
                await finish(self._release())
        self._renew()
        try:
            answer, asked_at = await finish(self._ask(waits=False))
            if answer.state == "full" and not pause.is_over:
                with self._client._waits.listening(FREE_SLOTS, self._key()) as waiter:
                    while answer.state == "full" and not pause.is_over:
                        await waiter.await_hint(pause.length(answer), pause.left)
                        self._client._check_open()
                        # The first one is woken from here on; the others are by those before.
                        answer, asked_at = await finish(self._ask(waits=True))
            if answer.state != "full":
                self._begun(asked_at)
                if self.heartbeat:
                    self._client._lease_keeper.begin(self, self.lease_ms, self._beat)
                return self
        except BaseException:
            # Perhaps they were granted all the same; if this fails, too, time does it.
            with contextlib.suppress(HeadraceError):
                await finish(self._release())
            raise
        raise self._refused(answer)

    async def _ask(self, *, waits: bool) -> tuple[CounterAnswer, float]:
        asked_at = monotonic()
        plan = asking(self._client._store, self._call(waits=waits))
        return await self._client._follow(plan), asked_at

    async def extend(self, lease: Duration | None = None) -> None:
        """Keep them for so long from now, as long as their lease is unless given.

        ``SlotsLost`` if they were released meanwhile. Heartbeats do this automatically.
        """
        if not self._is_held:
            raise slots_lost()
        lease_ms = self.lease_ms if lease is None else duration_ms("lease", lease, least=1)
        asked_at = monotonic()
        op = self._client._store.counters.extend(self.session, lease_ms)
        try:
            await self._client._run(Request(op))
        except SlotsLost:
            self._client._lease_keeper.end(self)
            self._is_lost = True
            raise
        self._is_lost = False
        self._sure_until = asked_at + lease_ms / 1000

    async def release(self) -> None:
        """Release the slots. ``SlotsLost`` if they were lost before.

        Slots that are not held are left alone.
        """
        if self._is_held and not await finish(self._release()):
            raise slots_lost()

    async def _release(self) -> bool:
        self._client._lease_keeper.end(self)
        with self._mutex.lock:
            op = self._client._store.counters.release(self.session)
            was_held: bool = await self._client._run(Request(op))
            self._is_held = False
        return was_held

    async def _beat(self) -> bool:
        with self._mutex.lock:
            if not self._is_held:
                return False
            try:
                await self.extend()
            except SlotsLost:
                return False
            except HeadraceError:
                # The store is away: the next beat may come through before the lease ends.
                return True
        return True

    # ASYNC
    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            await self.release()
            return
        # What went wrong in the block goes before what may be wrong with the slots.
        with contextlib.suppress(HeadraceError):
            await self.release()

    # SYNC
    # def _block(self) -> Block:
    #     try:
    #         self.acquire()
    #         yield from during(self)
    #         self.release()
    #     except HeadraceError:
    #         # What went wrong in the block goes before what may be wrong with the slots.
    #         with contextlib.suppress(HeadraceError):
    #             self.release()
    #         raise
    #     except BaseException:
    #         # Perhaps from a signal handler, in the middle of acquiring or releasing them.
    #         with contextlib.suppress(HeadraceError):
    #             self._release()
    #         raise
    #
    # END


class AsyncCounters:
    """The counters of a store, for async code."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def set(self, key_values: Mapping[str, Any], count: int) -> int:
        """Say how many of some key-values there are, whatever the limits say and without a lease,
        in place of what was set before; returns that. What is acquired counts besides."""
        request = setting(self._client._open_store, key_values, count)
        return await self._client._run(request)

    async def add(self, key_values: Mapping[str, Any], count: int) -> int:
        """Add to the count that was set, if the limits have capacity for all of it; returns the
        new count. ``LimitReached`` if not. A negative ``count`` subtracts, down to zero, whatever
        the limits say."""
        request = adding(self._client._open_store, key_values, count)
        return await self._client._run(request)

    async def list(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MAX_COUNTERS,
    ) -> Infos:
        """What user code counts, by key-values, or those that a query selects, by their form.

        Go on with ``after`` the key-values of the last one.
        """
        request = listing(self._client._open_store, select, after, limit)
        return await self._client._run(request)
