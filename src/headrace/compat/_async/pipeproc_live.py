"""PipeProc's live procs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.client._async.live import AsyncLive
from headrace.client._async.procs import AsyncClaim
from headrace.client._runtime.aio import AsyncSignal, call
from headrace.compat._async.pipeproc_calls import answers
from headrace.compat.pipeproc_values import (
    AckCommitResult,
    CommitLog,
    Log,
    ProcRecord,
    accepts,
    log_of,
    pipeproc_error,
    record_of,
)
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.compat._async.pipeproc import AsyncPipeProcClient

Logs = list[Log]

LIVE_RECLAIM_SECONDS = 10.0
"""How long logs of a live proc may stay without an ``ack`` or ``reclaim`` after its callback."""


class AsyncLiveProc:
    """A proc that calls back with new logs; the methods are the client's, for this proc."""

    def __init__(self, client: AsyncPipeProcClient, live: AsyncLive) -> None:
        self._client = client
        self._live = live
        self._function: Callable[..., object] | None = None
        self._is_settled = AsyncSignal()
        self._is_over = False

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._live.name

    @answers
    async def changes(self, function: Callable[..., object]) -> AsyncLiveProc:
        """Call ``function(err, logs, live)`` beside the caller; ``live`` may be left out.

        The logs are its own until ``ack``, ``ack_commit`` or ``reclaim``: the next ones come after
        that. Logs that stay for 10 seconds after the call are reclaimed. If the function raises,
        it is called with that exception, and the logs can still be reclaimed.
        """
        self._function = function
        self._client._lives[self.name] = self
        await self._live.changes(self._deliver, on_error=self._report)
        return self

    @answers
    async def inspect(self) -> ProcRecord:
        """What is known of its proc."""
        return record_of(await self._live.info())

    @answers
    async def destroy(self) -> ProcRecord:
        """Stop, and remove its proc; returns what it was."""
        self._end()
        return record_of(await self._live.delete())

    @answers
    async def disable(self) -> ProcRecord:
        """Disable its proc: no logs until ``resume``."""
        return record_of(await self._live.disable())

    @answers
    async def resume(self) -> ProcRecord:
        """Resume its proc."""
        return record_of(await self._live.resume())

    async def ack(self) -> str:
        """Ack the logs of the last call; returns the id, or ``first..last``."""
        return await self._client.ack(self.name)

    async def ack_commit(self, log: CommitLog | Sequence[CommitLog]) -> AckCommitResult:
        """``ack`` and ``commit`` in one transaction: both or neither."""
        return await self._client.ack_commit(self.name, log)

    async def reclaim(self) -> str:
        """Give the logs of the last call back: they come again."""
        return await self._client.reclaim(self.name)

    async def _leave(self) -> None:
        """Stop with the client."""
        self._end()
        await self._live.close()

    def _end(self) -> None:
        self._is_over = True
        self._is_settled.set()
        self._client._lives.pop(self.name, None)

    async def _deliver(self, claim: AsyncClaim) -> None:
        self._is_settled.clear()
        self._client._claims[self.name] = claim
        try:
            await self._call(None, [log_of(record) for record in claim])
        except Exception as error:
            await self._call(error, None)
        if not claim.is_settled and not self._is_over:
            await self._is_settled.wait_for(LIVE_RECLAIM_SECONDS)
        if not claim.is_settled:
            await claim.nack(error="neither acked nor reclaimed in time")

    async def _report(self, error: Exception) -> None:
        if not self._is_over:
            found = pipeproc_error(error) if isinstance(error, HeadraceError) else error
            await self._call(found, None)

    async def _call(self, error: Exception | None, logs: Logs | None) -> None:
        assert self._function is not None
        if accepts(self._function, 3):
            await call(self._function, error, logs, self)
        else:
            await call(self._function, error, logs)
