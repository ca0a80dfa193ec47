"""Workers: the two faces of an engine, blocking and async."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self

from headrace.client.running import documented
from headrace.contract.items import WorkerStatus
from headrace.worker.engine import Engine
from headrace.worker.events import Callback, EventName, call

DEFAULT_GRACE = 30.0


class _Face:
    """What both kinds of workers are known by."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def id(self) -> str:
        """New for each worker of each process."""
        return self._engine.id

    @property
    def queue(self) -> str:
        return self._engine.queue

    @property
    def name(self) -> str:
        """What people see of it in leases and errors."""
        return self._engine.name

    @property
    def status(self) -> WorkerStatus:
        """``running``, ``paused``, ``stopping`` or ``stopped``."""
        return self._engine.switch.current

    @property
    def busy(self) -> int:
        """How many items its handlers work on now."""
        return self._engine.lanes.busy

    @property
    def done(self) -> int:
        """How many items it has settled."""
        return self._engine.numbers.done

    @property
    def failed(self) -> int:
        """How many of those were rejected or killed."""
        return self._engine.numbers.failed

    @property
    def lost(self) -> int:
        """How many claims did not stand any more before they were settled."""
        return self._engine.numbers.lost

    def on(self, event: EventName, callback: Callback) -> Callable[[], None]:
        """Call back on each event from now on; returns the function that ends it.

        ``data`` (``Done``: an item was settled), ``error`` (``Trouble``: a handler raised, or the
        store failed and is tried again), ``state`` (``StateChange``) and ``lost`` (``Lost``: a
        claim does not stand any more). Callbacks run in the worker's threads, those of an async
        worker on its event loop, where they may be coroutine functions; they should be quick.
        """
        return self._engine.listeners.on(event, callback)

    def pause(self) -> None:
        """Claim nothing until ``resume``. What runs goes on; what has not started is handed
        back."""
        self._engine.switch.pause(is_paused=True)

    def resume(self) -> None:
        """Claim again."""
        self._engine.switch.pause(is_paused=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.queue!r}, {self.status}>"


class Worker(_Face):
    """Works on a queue, from its registration until ``stop``. See ``register_worker``.

    >>> with hr.register_worker("mail", send) as worker:
    ...     worker.join()
    """

    def stop(self, grace: float = DEFAULT_GRACE) -> None:
        """Stop gracefully: claim no more and hand back what has not started; wait up to ``grace``
        seconds for the handlers that run; hand back their items, too, uncounted.

        A handler that still runs then is not waited for, and what it says does not count. A
        second call may shorten the grace of the first.
        """
        self._engine.stop(grace)

    def kill(self) -> None:
        """Stop at once: hand back what has not started, and wait for no handler.

        What a running handler says still counts, if the process lives so long.
        """
        self._engine.kill()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is stopped for good; whether it is."""
        return self._engine.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class AsyncWorker(_Face):
    """``Worker`` for async code. Coroutine functions run on the event loop it was made on."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(engine)
        self._loop = loop
        self._tasks: set[asyncio.Future[Any]] = set()
        engine.listeners.call = self._call_back

    def _call_back(self, callback: Callback, event: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._call, callback, event)
        except RuntimeError:
            return  # the loop is closed, and with it whoever wanted to hear

    def _call(self, callback: Callback, event: Any) -> None:
        answer = call(callback, event)
        if inspect.isawaitable(answer):
            # Kept, because the loop itself holds its tasks by weak references only.
            task = asyncio.ensure_future(answer)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float = DEFAULT_GRACE) -> None:
        # A handler that stops its own worker must not wait for itself.
        is_inside = self._engine.lanes.runs(asyncio.current_task())
        await self._aside(functools.partial(self._engine.stop, grace, is_inside=is_inside))

    async def kill(self) -> None:
        await self._aside(self._engine.kill)

    async def join(self, timeout: float | None = None) -> bool:
        is_over: bool = await self._aside(functools.partial(self._engine.join, timeout))
        return is_over

    async def _aside(self, action: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(action)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


documented(AsyncWorker, Worker)
