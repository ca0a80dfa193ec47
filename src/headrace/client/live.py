"""Live procs: records as they arrive, in a loop or through a callback."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Sequence,
)
from typing import TYPE_CHECKING, Self

from headrace.client.calls import Acked, LivePlan
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.contract.store import Waiter
from headrace.core.commits import Entry, Headers
from headrace.errors import HeadraceError, NothingToReclaim, ProcDisabled, StoreError
from headrace.model.procs import DEFAULT_RECLAIM_TIMEOUT_MS, ProcInfo
from headrace.model.record import Record

if TYPE_CHECKING:
    from headrace.client.clients import AsyncClient, Client

BEAT = DEFAULT_RECLAIM_TIMEOUT_MS / 3000
CHORES = 30.0


def _no_claim(name: str) -> NothingToReclaim:
    return NothingToReclaim(f"live proc {name!r} has no records out at the moment.", proc=name)


class Live:
    """Follows a topic. Iterate: a record is acked when the next one is asked for.

    >>> for record in hr.live("orders", mode="live"):
    ...     handle(record)

    Or ``changes(callback)``, which calls back with each claim in a thread of its own. While
    records are out their claim is kept alive, however long you take; an exception in the
    callback gives them back, and they come again. ``cancel`` stops it and disables its proc,
    ``close`` (or leaving a ``with`` block) stops it and removes the proc.
    """

    def __init__(self, client: Client, plan: LivePlan) -> None:
        self._client = client
        self._plan = plan
        self._proc = Proc(client, plan.name, plan.topic)
        self._claim: Claim | None = None
        self._is_made = False
        self._is_stopped = threading.Event()
        self._waiter: Waiter | None = None
        self._loop: Generator[Record, None, None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._plan.name

    def __enter__(self) -> Self:
        self._make()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        self._loop = self._records()
        return self._loop

    def _records(self) -> Generator[Record, None, None]:
        claims = self._claims()
        try:
            for claim in claims:
                yield from claim
                self._settle(claim)
        finally:
            claims.close()

    def changes(
        self,
        callback: Callable[[Claim], object],
        *,
        on_error: Callable[[Exception], object] | None = None,
    ) -> Self:
        """Call back with each claim, in a thread; returns at once.

        A claim the callback has not settled itself is acked when it returns, and given back
        when it raises; ``on_error`` hears of it.
        """
        self._make()
        self._thread = threading.Thread(
            target=self._call_back, args=(callback, on_error), name=self.name, daemon=True
        )
        self._thread.start()
        return self

    def ack(self) -> str:
        """Ack the records that are out."""
        return self._current().ack()

    def ack_commit(self, entries: Sequence[Entry], *, headers: Headers | None = None) -> Acked:
        """Ack the records that are out and commit others, both or neither."""
        return self._current().ack_commit(entries, headers=headers)

    def reclaim(self, *, failed: Record | None = None, error: str | None = None) -> str:
        """Give the records that are out back: they come again."""
        return self._current().reclaim(failed=failed, error=error)

    def inspect(self) -> ProcInfo:
        """What is known of its proc."""
        return self._proc.inspect()

    def disable(self) -> ProcInfo:
        """Disable its proc: no more records until ``resume``."""
        return self._proc.disable()

    def resume(self) -> ProcInfo:
        """Resume its proc."""
        return self._proc.resume()

    def destroy(self) -> ProcInfo:
        """Stop, and remove its proc; returns what it was."""
        self._stop()
        return self._proc.destroy()

    def cancel(self) -> ProcInfo:
        """Stop, and disable its proc, which can be resumed or inspected later."""
        self._stop()
        return self._proc.disable()

    def close(self) -> None:
        """Stop, and remove its proc."""
        self._stop()
        if self._is_made and self._client.status():
            with contextlib.suppress(HeadraceError):
                self._proc.destroy()
        self._is_made = False

    def _make(self) -> None:
        if not self._is_made:
            plan = self._plan
            calls = self._client._calls
            self._client._run(calls.live_proc(plan.name, plan.topic, plan.offset))
            self._is_made = True

    def _current(self) -> Claim:
        if self._claim is None:
            raise _no_claim(self.name)
        return self._claim

    def _claims(self) -> Generator[Claim, None, None]:
        self._make()
        upcoming = self._proc._next_claim(self._plan.count)
        waiter = self._waiter = self._client._store.waiter(self._plan.topic)
        is_over = threading.Event()
        beat = threading.Thread(
            target=self._keep_alive, args=(is_over,), name=f"{self.name}-beat", daemon=True
        )
        beat.start()
        is_hinted = True
        try:
            while not self._is_stopped.is_set():
                claim = None
                # Without a hint, a look that writes nothing comes first.
                if is_hinted or self._is_behind():
                    claim = self._claim = self._proc._take(upcoming)
                    if claim is not None:
                        yield claim
                        self._claim = None
                    # Here and not above, where somebody waits for the records.
                    upcoming = self._proc._next_claim(self._plan.count)
                is_hinted = claim is not None or waiter.wait(CHORES)
        except ProcDisabled:
            if not self._is_stopped.is_set():
                raise
        finally:
            is_over.set()
            beat.join()
            self._waiter = None
            waiter.close()
            self._give_back()

    def _give_back(self) -> None:
        """Whoever leaves the loop in the middle of a claim gets its records again."""
        claim, self._claim = self._claim, None
        if claim is not None and not claim.is_settled and self._client.status():
            with contextlib.suppress(HeadraceError):
                claim.reclaim()

    def _is_behind(self) -> bool:
        return bool(self._client._run(self._client._calls.pending([self.name])))

    def _settle(self, claim: Claim) -> None:
        if not claim.is_settled:
            claim.ack()

    def _call_back(
        self,
        callback: Callable[[Claim], object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        while not self._is_stopped.is_set():
            try:
                for claim in self._claims():
                    self._handle(claim, callback, on_error)
            except StoreError as error:
                # The database is away for longer than the client's patience; it comes back.
                if on_error is not None:
                    on_error(error)
            except HeadraceError as error:
                if on_error is not None:
                    on_error(error)
                return

    def _handle(
        self,
        claim: Claim,
        callback: Callable[[Claim], object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        try:
            callback(claim)
            self._settle(claim)
        except StoreError:
            raise
        except Exception as error:  # whatever a callback raises is the user's to hear of
            if not claim.is_settled:
                with contextlib.suppress(HeadraceError):
                    claim.reclaim(error=repr(error))
            if on_error is not None:
                on_error(error)

    def _keep_alive(self, is_over: threading.Event) -> None:
        unseen = 0.0
        while not is_over.wait(BEAT):
            claim = self._claim
            unseen += BEAT
            with contextlib.suppress(HeadraceError):
                if claim is not None and not claim.is_settled:
                    claim.extend()
                if unseen > CHORES:
                    self._client._run(self._client._calls.keep_proc(self.name))
                    self._client.maintain()
                    unseen = 0.0

    def _stop(self) -> None:
        self._is_stopped.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        if self._loop is not None:
            # A loop that is running, in its own body or in another thread, ends by itself.
            with contextlib.suppress(ValueError):
                self._loop.close()


class AsyncLive:
    """``Live`` for async code; ``changes`` calls back in a task, and may be given a coroutine
    function."""

    def __init__(self, client: AsyncClient, plan: LivePlan) -> None:
        self._client = client
        self._plan = plan
        self._proc = AsyncProc(client, plan.name, plan.topic)
        self._claim: AsyncClaim | None = None
        self._is_made = False
        self._is_stopped = asyncio.Event()
        self._waiter: Waiter | None = None
        self._loop: AsyncGenerator[Record, None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._plan.name

    async def __aenter__(self) -> Self:
        await self._make()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Record]:
        self._loop = self._records()
        return self._loop

    async def _records(self) -> AsyncGenerator[Record, None]:
        claims = self._claims()
        try:
            async for claim in claims:
                for record in claim:
                    yield record
                await self._settle(claim)
        finally:
            await claims.aclose()

    async def changes(
        self,
        callback: Callable[[AsyncClaim], Awaitable[object] | object],
        *,
        on_error: Callable[[Exception], object] | None = None,
    ) -> Self:
        await self._make()
        self._task = asyncio.ensure_future(self._call_back(callback, on_error))
        return self

    async def ack(self) -> str:
        return await self._current().ack()

    async def ack_commit(
        self, entries: Sequence[Entry], *, headers: Headers | None = None
    ) -> Acked:
        return await self._current().ack_commit(entries, headers=headers)

    async def reclaim(self, *, failed: Record | None = None, error: str | None = None) -> str:
        return await self._current().reclaim(failed=failed, error=error)

    async def inspect(self) -> ProcInfo:
        return await self._proc.inspect()

    async def disable(self) -> ProcInfo:
        return await self._proc.disable()

    async def resume(self) -> ProcInfo:
        return await self._proc.resume()

    async def destroy(self) -> ProcInfo:
        await self._stop()
        return await self._proc.destroy()

    async def cancel(self) -> ProcInfo:
        await self._stop()
        return await self._proc.disable()

    async def close(self) -> None:
        await self._stop()
        if self._is_made and self._client.status():
            with contextlib.suppress(HeadraceError):
                await self._proc.destroy()
        self._is_made = False

    async def _make(self) -> None:
        if not self._is_made:
            plan = self._plan
            calls = self._client._calls
            await self._client._run(calls.live_proc(plan.name, plan.topic, plan.offset))
            self._is_made = True

    def _current(self) -> AsyncClaim:
        if self._claim is None:
            raise _no_claim(self.name)
        return self._claim

    async def _claims(self) -> AsyncGenerator[AsyncClaim, None]:
        await self._make()
        upcoming = self._proc._next_claim(self._plan.count)
        waiter = self._waiter = self._client._store.waiter(self._plan.topic)
        beat = asyncio.ensure_future(self._keep_alive())
        is_hinted = True
        try:
            while not self._is_stopped.is_set():
                claim = None
                # Without a hint, a look that writes nothing comes first.
                if is_hinted or await self._is_behind():
                    claim = self._claim = await self._proc._take(upcoming)
                    if claim is not None:
                        yield claim
                        self._claim = None
                    # Here and not above, where somebody waits for the records.
                    upcoming = self._proc._next_claim(self._plan.count)
                is_hinted = claim is not None or await waiter.await_hint(CHORES)
        except ProcDisabled:
            if not self._is_stopped.is_set():
                raise
        finally:
            beat.cancel()
            self._waiter = None
            waiter.close()
            await self._give_back()

    async def _give_back(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None and not claim.is_settled and self._client.status():
            with contextlib.suppress(HeadraceError):
                await claim.reclaim()

    async def _is_behind(self) -> bool:
        behind = await self._client._run(self._client._calls.pending([self.name]))
        return bool(behind)

    async def _settle(self, claim: AsyncClaim) -> None:
        if not claim.is_settled:
            await claim.ack()

    async def _call_back(
        self,
        callback: Callable[[AsyncClaim], Awaitable[object] | object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        while not self._is_stopped.is_set():
            try:
                async for claim in self._claims():
                    await self._handle(claim, callback, on_error)
            except StoreError as error:
                # The database is away for longer than the client's patience; it comes back.
                if on_error is not None:
                    on_error(error)
            except HeadraceError as error:
                if on_error is not None:
                    on_error(error)
                return

    async def _handle(
        self,
        claim: AsyncClaim,
        callback: Callable[[AsyncClaim], Awaitable[object] | object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        try:
            answer = callback(claim)
            if isinstance(answer, Awaitable):
                await answer
            await self._settle(claim)
        except StoreError:
            raise
        except Exception as error:  # whatever a callback raises is the user's to hear of
            if not claim.is_settled:
                with contextlib.suppress(HeadraceError):
                    await claim.reclaim(error=repr(error))
            if on_error is not None:
                on_error(error)

    async def _keep_alive(self) -> None:
        unseen = 0.0
        while True:
            await asyncio.sleep(BEAT)
            claim = self._claim
            unseen += BEAT
            with contextlib.suppress(HeadraceError):
                if claim is not None and not claim.is_settled:
                    await claim.extend()
                if unseen > CHORES:
                    await self._client._run(self._client._calls.keep_proc(self.name))
                    await self._client.maintain()
                    unseen = 0.0

    async def _stop(self) -> None:
        self._is_stopped.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])
        if self._loop is not None:
            # A loop that is running ends by itself.
            with contextlib.suppress(RuntimeError):
                await self._loop.aclose()
