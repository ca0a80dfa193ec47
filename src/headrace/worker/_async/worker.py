"""Workers: the handle that ``start_worker`` returns."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import Self

from headrace.contract.threads import in_thread
from headrace.worker.worker_view import DEFAULT_GRACE, WorkerView

# ASYNC
JOIN_SECONDS = 1.0
# END


class AsyncWorker(WorkerView):
    """Works on a queue, from its registration until ``stop``. See ``start_worker``.

    >>> async with await hr.start_worker("mail", send) as worker:
    ...     await worker.join()
    """

    async def pause(self) -> None:
        """Claim nothing until ``resume``. Handlers that run go on; items that have not been
        started are released."""
        self._engine.switch.pause(is_paused=True)

    async def resume(self) -> None:
        """Claim again."""
        self._engine.switch.pause(is_paused=False)

    async def stop(self, grace: float = DEFAULT_GRACE) -> None:
        """Stop gracefully: claim no more and release items that have not been started; wait up
        to ``grace`` seconds for the handlers that run; release their items, too, uncounted.

        A handler that still runs then is not waited for, and its outcome is ignored. A second
        call may shorten the grace of the first.
        """
        # ASYNC
        # A handler that stops its own worker must not wait for itself.
        is_inside = self._engine.executor.runs(asyncio.current_task())
        await in_thread(partial(self._engine.stop, grace, is_inside=is_inside))
        # SYNC
        # self._engine.stop(grace)
        # END

    async def kill(self) -> None:
        """Stop immediately: release items that have not been started, and wait for no handler.

        The outcome of a running handler still counts, if the process lives so long.
        """
        # ASYNC
        await in_thread(self._engine.kill)
        # SYNC
        # self._engine.kill()
        # END

    async def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""
        # ASYNC
        end = None if timeout is None else monotonic() + timeout
        while True:
            # In short waits: if the caller is cancelled, the thread ends soon, too.
            left = JOIN_SECONDS if end is None else min(JOIN_SECONDS, max(end - monotonic(), 0.0))
            if await in_thread(self._engine.join, left):
                return True
            if end is not None and monotonic() >= end:
                return False
        # SYNC
        # return self._engine.join(timeout)
        # END

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
