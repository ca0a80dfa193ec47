"""One test for two clients: an async client that is used like a blocking one.

The facade runs every method that returns a coroutine on a loop of its own. It wraps what comes back
(procs, claims, iterators) in the same way. So the contract suite is written once.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import Context, copy_context
from typing import Any, Literal, Self

import headrace
from headrace.client._async.admin import AsyncAdmin
from headrace.client._async.channels import AsyncChannels, AsyncSelections
from headrace.client._async.client import AsyncClient
from headrace.client._async.counters import AsyncCounters
from headrace.client._async.dead_letters import AsyncDeadLetters
from headrace.client._async.follower import AsyncFollower
from headrace.client._async.items import AsyncClaimedItem
from headrace.client._async.limits import AsyncLimits
from headrace.client._async.live import AsyncLive
from headrace.client._async.locks import AsyncLocks
from headrace.client._async.procs import AsyncClaim, AsyncProc, AsyncProcs
from headrace.client._async.queue import AsyncQueue
from headrace.client._async.queues import AsyncQueues
from headrace.client._async.replay import AsyncReplay
from headrace.client._async.schedules import AsyncSchedules
from headrace.client._async.sinks import AsyncSinks
from headrace.client._async.tokens import AsyncTokens
from headrace.client._async.topics import AsyncTopicReader, AsyncTopics
from headrace.client._async.transactions import AsyncTransaction
from headrace.client._sync.procs import Claim
from headrace.core.requests.procs import ClaimedBatch
from headrace.model.topics.records import Record
from headrace.pipelines._async.collection import AsyncPipelines
from headrace.pipelines._async.pipeline import AsyncPipeline

SOON = 0.05
ClientMode = Literal["blocking", "async"]
WRAPPED = (
    AsyncTopics
    | AsyncProcs
    | AsyncQueues
    | AsyncLimits
    | AsyncLocks
    | AsyncCounters
    | AsyncSinks
    | AsyncPipelines
    | AsyncTokens
    | AsyncSchedules
    | AsyncAdmin
    | AsyncChannels
    | AsyncSelections
    | AsyncProc
    | AsyncTransaction
    | AsyncQueue
    | AsyncClaimedItem
    | AsyncDeadLetters
    | AsyncTopicReader
    | AsyncFollower
    | AsyncReplay
    | AsyncPipeline
)


def connect(mode: ClientMode, url: str, **options: Any) -> Any:
    """A client with blocking methods, over ``connect`` or over ``aconnect``."""
    if mode == "blocking":
        return headrace.connect(url, **options)
    loop = asyncio.new_event_loop()
    try:
        client = loop.run_until_complete(headrace.aconnect(url, **options))
    except BaseException:
        loop.close()
        raise
    return SyncFacade(client, loop)


def shut(client: Any) -> None:
    """Close a client of ``connect``, whatever state it is in."""
    if isinstance(client, SyncFacade):
        client.shut()
    else:
        client.close()


def claim_of(client: Any, proc: str, token: str, records: Sequence[Record] = ()) -> Any:
    """A claim by its token, as if another client or another process had made it."""
    batch = ClaimedBatch(proc, token, list(records), None)
    if isinstance(client, SyncFacade):
        return client._wrap(AsyncClaim(client._inner.proc(proc), batch))
    return Claim(client.proc(proc), batch)


@contextmanager
def closing_soon(client: Any) -> Iterator[None]:
    """Close a client while the block waits for it."""
    if isinstance(client, SyncFacade):
        with client.closing_soon():
            yield
        return
    timer = threading.Timer(SOON, client.close)
    timer.start()
    try:
        yield
    finally:
        timer.join()


class SyncFacade:
    """Forwards everything to an async object and waits for the result."""

    def __init__(
        self, inner: Any, loop: asyncio.AbstractEventLoop, context: Context | None = None
    ) -> None:
        self._inner = inner
        self._loop = loop
        # For context variables, all calls of a facade belong to one task.
        self._context = context or copy_context()

    def _await(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._loop.run_until_complete(self._loop.create_task(wait(), context=self._context))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not inspect.ismethod(value):
            return self._wrap(value)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._wrap(value(*_bare(args), **{k: _unwrapped(v) for k, v in kwargs.items()}))

        return call

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """An async function of the client, to be called like a blocking one."""
        return lambda *args, **kwargs: self._wrap(function(self._inner, *_bare(args), **kwargs))

    def _wrap(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            value = self._await(value)
        if isinstance(value, AsyncIterator):
            return self._iterate(value)
        if isinstance(value, AsyncClaim):
            return ClaimFacade(value, self._loop, self._context)
        if isinstance(value, AsyncLive):
            return ContextFacade(value, self._loop, self._context)
        if isinstance(value, AbstractAsyncContextManager) and not isinstance(value, AsyncClient):
            return ContextFacade(value, self._loop, self._context)
        if isinstance(value, WRAPPED):
            return SyncFacade(value, self._loop, self._context)
        if isinstance(value, list):
            return [self._wrap(one) for one in value]
        return value

    def _iterate(self, pages: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._await(anext(pages))
            except StopAsyncIteration:
                return

    @contextmanager
    def closing_soon(self) -> Iterator[None]:
        """Close the client in another task of its loop."""
        closings: list[asyncio.Task[None]] = []
        self._loop.call_later(
            SOON, lambda: closings.append(self._loop.create_task(self._inner.close()))
        )
        yield
        [closing] = closings
        self._await(closing)

    def pump(self) -> None:
        """Let the tasks of the loop continue for a moment."""
        self._await(asyncio.sleep(0.001))

    def shut(self) -> None:
        """Close the client and its loop."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._inner.close())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ContextFacade(SyncFacade):
    """An async context manager, entered and left like a blocking one."""

    def __enter__(self) -> Any:
        return self._wrap(self._await(self._inner.__aenter__()))

    def __exit__(self, *error: object) -> Any:
        return self._await(self._inner.__aexit__(*error))


class ClaimFacade(SyncFacade, Sequence[Any]):
    """A claim is also a sequence of records."""

    def __getitem__(self, index: Any) -> Any:
        return self._inner[index]

    def __len__(self) -> int:
        return len(self._inner)


def _bare(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_unwrapped(arg) for arg in args)


def _unwrapped(arg: Any) -> Any:
    if isinstance(arg, SyncFacade):
        return arg._inner
    if isinstance(arg, list):
        return [item._inner if isinstance(item, SyncFacade) else item for item in arg]
    return arg
