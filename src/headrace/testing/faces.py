"""One test, two clients: an async client that is used like a blocking one.

Every method that returns a coroutine is run on a loop of the face's own; what comes back
(procs, claims, iterators) is wrapped the same way. So the contract suite is written once.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import Context, copy_context
from typing import Any, Literal, Self

import headrace
from headrace.client.clients import AsyncClient
from headrace.client.dead_letters import AsyncDeadLetters
from headrace.client.following import AsyncFollower, AsyncReplay
from headrace.client.items import AsyncItem
from headrace.client.kind_queues import AsyncSimpleQueue
from headrace.client.live import AsyncLive
from headrace.client.procs import AsyncClaim, AsyncProc
from headrace.client.queues import AsyncQueue
from headrace.client.sinks import AsyncSink
from headrace.client.topics import AsyncTopic
from headrace.client.transactions import AsyncTransaction
from headrace.pipelines.handles import AsyncSystemProc

SOON = 0.05
FaceName = Literal["blocking", "async"]
FACED = (
    AsyncProc
    | AsyncTransaction
    | AsyncQueue
    | AsyncItem
    | AsyncDeadLetters
    | AsyncTopic
    | AsyncFollower
    | AsyncReplay
    | AsyncSimpleQueue
    | AsyncSystemProc
    | AsyncSink
)


def connect(face: FaceName, url: str, **options: Any) -> Any:
    """A client with blocking methods, over ``connect`` or over ``aconnect``."""
    if face == "blocking":
        return headrace.connect(url, **options)
    loop = asyncio.new_event_loop()
    try:
        client = loop.run_until_complete(headrace.aconnect(url, **options))
    except BaseException:
        loop.close()
        raise
    return BlockingFace(client, loop)


def shut(client: Any) -> None:
    """Close a client that ``connect`` gave, whatever state it is in."""
    if isinstance(client, BlockingFace):
        client.shut()
    else:
        client.close()


@contextmanager
def closing_soon(client: Any) -> Iterator[None]:
    """Close a client while the block waits for something of it."""
    if isinstance(client, BlockingFace):
        with client.closing_soon():
            yield
        return
    timer = threading.Timer(SOON, client.close)
    timer.start()
    try:
        yield
    finally:
        timer.join()


class BlockingFace:
    """Forwards everything to an async object and waits for it."""

    def __init__(
        self, inner: Any, loop: asyncio.AbstractEventLoop, context: Context | None = None
    ) -> None:
        self._inner = inner
        self._loop = loop
        # All calls of a face are one task's, as far as context variables can tell.
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

    def _wrap(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            value = self._await(value)
        if isinstance(value, AsyncIterator):
            return self._iterate(value)
        if isinstance(value, AsyncClaim):
            return ClaimFace(value, self._loop, self._context)
        if isinstance(value, AsyncLive):
            return ContextFace(value, self._loop, self._context)
        if isinstance(value, AbstractAsyncContextManager) and not isinstance(value, AsyncClient):
            return ContextFace(value, self._loop, self._context)
        if isinstance(value, FACED):
            return BlockingFace(value, self._loop, self._context)
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
        """Close the client by another task of its loop."""
        closings: list[asyncio.Task[None]] = []
        self._loop.call_later(
            SOON, lambda: closings.append(self._loop.create_task(self._inner.close()))
        )
        yield
        [closing] = closings
        self._await(closing)

    def pump(self) -> None:
        """Let the loop's tasks go on for a moment."""
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


class ContextFace(BlockingFace):
    """A block of async code, entered and left like any other."""

    def __enter__(self) -> Any:
        return self._wrap(self._await(self._inner.__aenter__()))

    def __exit__(self, *error: object) -> Any:
        return self._await(self._inner.__aexit__(*error))


class ClaimFace(BlockingFace, Sequence[Any]):
    """A claim is also a sequence of records."""

    def __getitem__(self, index: Any) -> Any:
        return self._inner[index]

    def __len__(self) -> int:
        return len(self._inner)


def _bare(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_unwrapped(arg) for arg in args)


def _unwrapped(arg: Any) -> Any:
    if isinstance(arg, BlockingFace):
        return arg._inner
    if isinstance(arg, list):
        return [_unwrapped(item) for item in arg]
    return arg
