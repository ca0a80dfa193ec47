"""Live procs: records as they arrive, in a loop or through a callback."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Self

from headrace.client import live_failures
from headrace.client._async.procs import AsyncClaim, AsyncProc
from headrace.client._runtime.aio import AsyncBackground, AsyncPeriodic, AsyncSignal, call, current
from headrace.client.live_failures import Failures, OnError, check_callbacks, no_claim
from headrace.contract.shield import finish, is_cancelled
from headrace.contract.store import Waiter
from headrace.core.commits import Entry, Headers
from headrace.core.requests.procs import AckResult, LivePlan
from headrace.errors import HeadraceError, NotConnected, ProcDisabled, UnknownProc
from headrace.model.failures import words_of
from headrace.model.topics.procs import ProcInfo
from headrace.model.topics.records import Record

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


class AsyncLive:
    """Follows a topic. Iterate: a record is acked when the next one is asked for.

    >>> async for record in hr.live("orders", mode="live"):
    ...     handle(record)

    Or ``changes(callback)``, which calls back with each claim, beside the caller. While records
    are claimed the claim is extended, however long you take; an exception in the callback gives
    them back, and they come again, after a pause that grows from 0.05 to 5 seconds. ``cancel``
    stops it and disables its proc, ``close`` (or leaving a ``with`` block) stops it and removes
    the proc; ``changes`` or another loop begins again.
    """

    def __init__(self, client: AsyncClient, plan: LivePlan) -> None:
        self._client = client
        self._plan = plan
        self._proc = AsyncProc(client, plan.name)
        self._claim: AsyncClaim | None = None
        self._is_made = False
        self._is_stopped = AsyncSignal()
        self._failures = Failures(plan.name)
        self._resumed = AsyncSignal()
        self._waiter: Waiter | None = None
        self._loop: AsyncGenerator[Record, None] | None = None
        self._background: AsyncBackground | None = None

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._plan.name

    @property
    def failures(self) -> int:
        """How many times a callback raised, or the store failed under it."""
        return self._failures.count

    async def __aenter__(self) -> Self:
        await self._make()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Record]:
        self._loop = self._records(self._begin())
        return self._loop

    def _begin(self) -> AsyncSignal:
        """What ends the loop or the callbacks that begin now."""
        if self._is_stopped.is_set():
            # A new one: a loop that has not noticed its end yet still ends.
            self._is_stopped = AsyncSignal()
        return self._is_stopped

    async def _records(self, is_stopped: AsyncSignal) -> AsyncGenerator[Record, None]:
        claims = self._claims(is_stopped)
        try:
            async for claim in claims:
                # ASYNC
                for record in claim:
                    yield record
                # SYNC
                # yield from claim
                # END
                await self._settle(claim)
        finally:
            await claims.aclose()

    async def changes(
        self,
        callback: Callable[[AsyncClaim], object],
        *,
        on_error: Callable[[Exception], object] | None = None,
    ) -> Self:
        """Call back with each claim, in a thread (async: in a task); returns immediately.

        A claim the callback has not settled itself is acked when it returns, and given back
        when it raises; ``on_error`` is called then, and for trouble with the store, which is
        waited out. Without ``on_error`` it is logged. ``failures`` counts. While the proc is
        disabled there are no calls; after ``resume``, by whatever client, they go on. Async
        callbacks may be coroutine functions.
        """
        check_callbacks(callback, on_error)
        await self._make()
        self._background = AsyncBackground(
            self.name, self._call_back, callback, on_error, self._begin()
        )
        return self

    async def ack(self) -> str:
        """Ack the records of the current claim."""
        return await self._current().ack()

    async def ack_commit(
        self, entries: Sequence[Entry], *, headers: Headers | None = None
    ) -> AckResult:
        """Ack the records of the current claim and commit others, both or neither."""
        return await self._current().ack_commit(entries, headers=headers)

    async def nack(self, *, failed: Record | None = None, error: str | None = None) -> str:
        """Give the records of the current claim back: they come again."""
        return await self._current().nack(failed=failed, error=error)

    async def info(self) -> ProcInfo:
        """What is known of its proc."""
        return await self._proc.info()

    async def disable(self) -> ProcInfo:
        """Disable its proc: no more records until ``resume``."""
        return await self._proc.disable()

    async def resume(self) -> ProcInfo:
        """Resume its proc."""
        info = await self._proc.resume()
        self._resumed.set()
        return info

    async def delete(self) -> ProcInfo:
        """Stop, and remove its proc; returns what it was."""
        await self._stop(current())
        return await self._proc.delete()

    async def cancel(self) -> ProcInfo:
        """Stop, and disable its proc, which can be resumed or inspected later."""
        await self._stop(current())
        return await self._proc.disable()

    async def close(self) -> None:
        """Stop, and remove its proc."""
        await finish(self._close(current()))

    async def _close(self, caller: object) -> None:
        await self._stop(caller)
        if self._is_made and self._client.status:
            with contextlib.suppress(HeadraceError):
                await self._proc.delete()
        self._is_made = False

    async def _make(self) -> None:
        if self._is_made:
            return
        plan = self._plan
        request = self._client._requests.procs.live_proc(plan.name, plan.topic, plan.offset)
        # ASYNC
        try:
            await self._client._run(request)
        except asyncio.CancelledError:
            # Perhaps it was made all the same.
            with contextlib.suppress(HeadraceError):
                await finish(self._proc.delete())
            raise
        # SYNC
        # self._client._run(request)
        # END
        self._is_made = True

    def _current(self) -> AsyncClaim:
        if self._claim is None:
            raise no_claim(self.name)
        return self._claim

    async def _claims(self, is_stopped: AsyncSignal) -> AsyncGenerator[AsyncClaim, None]:
        await self._make()
        upcoming = self._proc._next_claim(self._plan.count)
        waiter = self._waiter = self._client._store.waiter(self._plan.topic)
        # Maintenance may be slow, so it does not share the thread that extends leases.
        leases, holder = self._client._lease_keeper, object()
        leases.begin(holder, live_failures.LEASE_MS, self._extend)
        maintenance = AsyncPeriodic(
            f"{self.name}-maintenance", self._maintain, live_failures.MAINTENANCE_SECONDS
        )
        is_hinted = True
        try:
            while not is_stopped.is_set():
                claim = None
                # Without a hint, a read that writes nothing comes first.
                if is_hinted or await self._is_behind():
                    claim = self._claim = await self._proc._claim_now(upcoming)
                    if claim is not None:
                        yield claim
                        self._claim = None
                    # Here and not above, where the caller waits for the records.
                    upcoming = self._proc._next_claim(self._plan.count)
                is_hinted = claim is not None or await waiter.await_hint(
                    live_failures.MAINTENANCE_SECONDS
                )
        except ProcDisabled:
            if not is_stopped.is_set():
                raise
        finally:
            leases.end(holder)
            self._waiter = None
            waiter.close()
            try:
                await maintenance.end()
            finally:
                await self._nack_left_claim()

    async def _nack_left_claim(self) -> None:
        """Nack a claim whose loop was left in the middle: its records come again."""
        claim, self._claim = self._claim, None
        if claim is not None and not claim.is_settled and self._client.status:
            with contextlib.suppress(HeadraceError):
                await finish(claim.nack())

    async def _is_behind(self) -> bool:
        behind = await self._client._run(self._client._requests.procs.pending([self.name]))
        return bool(behind)

    async def _settle(self, claim: AsyncClaim) -> None:
        if not claim.is_settled:
            await claim.ack()

    async def _call_back(
        self,
        callback: Callable[[AsyncClaim], object],
        on_error: OnError,
        is_stopped: AsyncSignal,
    ) -> None:
        while not is_stopped.is_set():
            try:
                async with contextlib.aclosing(self._claims(is_stopped)) as claims:
                    async for claim in claims:
                        await self._handle(claim, callback, on_error, is_stopped)
            except (NotConnected, UnknownProc) as error:
                # The client is closed, or the proc was removed: nothing will ever come.
                await self._await_answer(self._failures.add(error, on_error)[1])
                return
            except ProcDisabled as error:
                await self._await_answer(self._failures.report(error, on_error))
                await self._wait_resumed(is_stopped)
            except Exception as error:  # the database may be away for long; it comes back
                await self._failed(error, on_error, is_stopped)

    async def _handle(
        self,
        claim: AsyncClaim,
        callback: Callable[[AsyncClaim], object],
        on_error: OnError,
        is_stopped: AsyncSignal,
    ) -> None:
        try:
            await call(callback, claim)
            await self._settle(claim)
        except BaseException as error:  # whatever a callback raises goes to on_error
            # ASYNC
            if is_cancelled(error):
                raise
            # END
            if not claim.is_settled:
                with contextlib.suppress(HeadraceError):
                    await claim.nack(error=words_of(error))
            await self._failed(error, on_error, is_stopped)
        else:
            self._failures.restore()

    async def _failed(
        self, error: BaseException, on_error: OnError, is_stopped: AsyncSignal
    ) -> None:
        pause, answer = self._failures.add(error, on_error)
        await self._await_answer(answer)
        await is_stopped.wait_for(pause)

    async def _await_answer(self, answer: object) -> None:
        """Await what ``on_error`` returned, if it is async."""
        # ASYNC
        if inspect.isawaitable(answer):
            try:
                await answer
            except BaseException as mistake:
                if is_cancelled(mistake):
                    raise
                self._failures.complain(mistake)
        # END

    async def _wait_resumed(self, is_stopped: AsyncSignal) -> None:
        """Wait until the proc may be active again."""
        while not is_stopped.is_set():
            await self._resumed.wait_for(live_failures.DISABLED_POLL_SECONDS)
            self._resumed.clear()
            try:
                info = await self._proc.info()
            except HeadraceError:
                return  # the next claim raises it
            if info.status == "active":
                return

    async def _extend(self) -> bool:
        """Extend the claim of the moment; True, because the next one needs it, too."""
        claim = self._claim
        if claim is not None and not claim.is_settled:
            # The store may be unavailable. The ack reports a claim that was lost.
            with contextlib.suppress(Exception):
                await claim.extend()
        return True

    async def _maintain(self) -> float:
        """Keep the proc from being removed as unused, and maintain the store; the next pause."""
        seconds = live_failures.MAINTENANCE_SECONDS
        with contextlib.suppress(Exception):  # the store may be unavailable
            await self._client._run(self._client._requests.procs.touch(self.name))
            report = await self._client.admin.maintain()
            seconds = min(seconds, report.interval)
        return seconds

    async def _stop(self, caller: object) -> None:
        self._is_stopped.set()
        self._resumed.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()
        background = self._background
        if background is not None and not background.is_same(caller):
            await background.join()
        if self._loop is not None:
            # A loop that is running, in its own body or elsewhere, ends without this.
            # ASYNC
            with contextlib.suppress(RuntimeError):
                await self._loop.aclose()
            # SYNC
            # with contextlib.suppress(ValueError):
            #     self._loop.close()
            # END
