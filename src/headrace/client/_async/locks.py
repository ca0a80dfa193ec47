"""Locks: exclusive, named by key-values, each grant with a number that only grows."""

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
from headrace.client.lock_view import PLACE_MS, LockView, LockWait, wait_seconds
from headrace.client.waiters import LineWaiter
from headrace.contract.locks import LockAnswer
from headrace.contract.shield import finish
from headrace.core.locks import LockInfo
from headrace.core.requests.locks import MAX_LOCKS, force_release, listing
from headrace.core.requests.request import Request
from headrace.errors import HeadraceError, LockLost
from headrace.model.error_messages import lock_lost
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.times import Duration, duration_ms

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


Infos = list[LockInfo]


class AsyncLock(AsyncScope, LockView):
    """A lock to be acquired, in a ``with`` block or by hand. It is not reentrant.

    >>> async with hr.lock({"site": "shop"}, lease="30s", wait=10) as lock:
    ...     deploy(fence=lock.token)
    """

    def __init__(self, client: AsyncClient, key_values: Mapping[str, Any], **how: Any) -> None:
        super().__init__(key_values, client=client._waits.name, **how)
        self._client = client
        # A heartbeat that is under way must not find a lock that is being given back.
        self._mutex = AsyncMutex()

    async def acquire(self, wait: float | UnsetType | None = UNSET) -> Self:
        """Acquire the lock, waiting in line for it: ``LockTaken`` when that takes longer.

        ``wait`` is in seconds, 0 for not at all, None for ever; as the lock was made with unless
        given. Sessions get it in the order in which they came, in whichever process. A lock that is held already
        stays as it is.
        """
        if self.held:
            return self
        longest = self.wait if wait is UNSET else wait_seconds(wait)
        self._forget_loss()
        if longest == 0:
            answer = await self._try()
        else:
            answer = await self._stand_in_line(LockWait(longest))
        if answer.state == "taken":
            raise self._taken(answer)
        if answer.until - answer.now < self.lease_ms:
            # It was ours before we asked.
            # ASYNC
            try:
                await self.extend()
            except BaseException:
                with contextlib.suppress(HeadraceError):
                    await finish(self._release())
                raise
            # SYNC
            # self.extend()
            # END
        if self.heartbeat:
            self._client._lease_keeper.begin(self, self.lease_ms, self._beat)
        return self

    async def _try(self) -> LockAnswer:
        try:
            return await self._ask(waits=False)
        except BaseException:
            # Perhaps it was granted all the same; if this fails, too, time does it.
            with contextlib.suppress(HeadraceError):
                await finish(self._release())
            raise

    async def _stand_in_line(self, patience: LockWait) -> LockAnswer:
        # Before it has a place in the store: a release that finds it there finds it here.
        with self._client._waits.listening(*self._line(), tag=self.session) as waiter:
            try:
                answer = await self._wait_for_turn(await self._ask(waits=True), patience, waiter)
                # No other session gets it before it is released, which wakes the next one.
                waiter.leaves_nothing = answer.state == "granted"
                return answer
            finally:
                if self._token is None:
                    # Not to be in the way of others; if that fails, time does it.
                    with contextlib.suppress(HeadraceError):
                        await finish(self._release())

    async def _wait_for_turn(
        self, answer: LockAnswer, patience: LockWait, waiter: LineWaiter
    ) -> LockAnswer:
        store, name = self._client._store, self.key_values.form
        now, next_at = answer.now, answer.next_at
        while answer.state == "taken" and not patience.is_over:
            await waiter.await_hint(patience.pause(now, next_at), patience.left)
            self._client._check_open()
            is_there = True
            if waiter.is_due(PLACE_MS / 3000):
                # For all waiters of this client: only the first of them polls.
                kept = await self._run(store.locks.renew_places(waiter.tags(), PLACE_MS))
                is_there = self.session in kept
            turn = await self._run(store.locks.turn(name, self.session))
            waiter.let_pass(turn.ahead)
            if turn.state != "taken" or not is_there:
                answer = await self._ask(waits=True)
            now, next_at = turn.now, turn.next_at
        return answer

    async def _ask(self, *, waits: bool) -> LockAnswer:
        asked_at = monotonic()
        # Finished even if we are cancelled: what was granted is given back then.
        op = self._client._store.locks.acquire(self._call(waits=waits))
        answer: LockAnswer = await finish(self._run(op))
        if answer.state == "granted":
            self._begun(answer, asked_at)
        return answer

    async def extend(self, lease: Duration | None = None) -> None:
        """Keep the lock for so long from now, as long as its lease is unless given.

        ``LockLost`` if another session has it by now. Heartbeats do this automatically.
        """
        _ = self.token
        lease_ms = self.lease_ms if lease is None else duration_ms("lease", lease, least=1)
        asked_at = monotonic()
        try:
            await self._run(
                self._client._store.locks.extend(self.key_values.form, self.session, lease_ms)
            )
        except LockLost:
            self._client._lease_keeper.end(self)
            self._lose()
            raise
        self._extended(lease_ms, asked_at)

    async def release(self) -> None:
        """Give the lock back, and let the next one have it. ``LockLost`` if it was lost before.

        A lock that is not held is left alone.
        """
        if self._token is None:
            return
        if not await finish(self._release()):
            raise lock_lost(self.key_values.form)

    async def _release(self) -> bool:
        self._client._lease_keeper.end(self)
        with self._mutex.lock:
            op = self._client._store.locks.release(self.key_values.form, self.session)
            was_held: bool = await self._run(op)
            self._ended()
        return was_held

    async def _beat(self) -> bool:
        with self._mutex.lock:
            if self._token is None:
                return False
            try:
                await self.extend()
            except LockLost:
                return False
            except HeadraceError:
                # The store is away: the next beat may come through before the lease ends.
                if self.lost:
                    self._lose()
        return True

    async def _run(self, op: Any) -> Any:
        return await self._client._run(Request(op))

    # ASYNC
    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            await self.release()
            return
        # What went wrong in the block goes before what may be wrong with the lock.
        with contextlib.suppress(HeadraceError):
            await self.release()

    # SYNC
    # def _block(self) -> Block:
    #     try:
    #         self.acquire()
    #         yield from during(self)
    #         self.release()
    #     except HeadraceError:
    #         # What went wrong in the block goes before what may be wrong with the lock.
    #         with contextlib.suppress(HeadraceError):
    #             self.release()
    #         raise
    #     except BaseException:
    #         # Perhaps from a signal handler, in the middle of acquiring or releasing it.
    #         with contextlib.suppress(HeadraceError):
    #             self._release()
    #         raise
    #
    # END


class AsyncLocks:
    """The locks of a store, for async code."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MAX_LOCKS,
    ) -> Infos:
        """The locks with a holder or waiters, or those that a query selects, by their form.

        Go on with ``after`` the key-values of the last one.
        """
        request = listing(self._client._open_store, select, after, limit)
        return await self._client._run(request)

    async def force_release(
        self, key_values: Mapping[str, Any], *, token: int | None = None
    ) -> LockInfo:
        """Release a lock that another session holds; what it was. ``UnknownLock`` if it is free, or held
        by another ``token`` than is given. Its holder finds it lost at its next heartbeat."""
        request = force_release(self._client._open_store, key_values, token)
        return await self._client._run(request)
