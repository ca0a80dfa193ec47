"""What all open streams need from time to time, in one task for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from headrace.contract.wire import Problem
from headrace.errors import AccessError, HeadraceError
from headrace.model.failures import words_of
from headrace.node.guard import Guard
from headrace.node.http import HttpError, HttpRequest
from headrace.node.problems import problem_of
from headrace.node.shutdown import Closing

TICK_SECONDS = 1.0

_log = logging.getLogger("headrace.node")


class KeptStream(Protocol):
    """A stream, or a socket."""

    request: HttpRequest

    def tick(self, seconds: float) -> None:
        """So many seconds have passed on the keeper's clock: see whether something is due."""
        ...

    def end(self, problem: Problem | None = None) -> None:
        """End it, and say why; None if the node is stopping."""
        ...


class StreamKeeper:
    """Ends streams whose tokens are no longer valid, and all streams with the node."""

    def __init__(self, guard: Guard, closing: Closing) -> None:
        self._guard = guard
        self._closing = closing
        self._streams: set[KeptStream] = set()
        self._task: asyncio.Task[None] | None = None
        self.seconds = 0.0

    @contextmanager
    def keeping(self, stream: KeptStream) -> Iterator[None]:
        """Keep a stream in the block."""
        self._streams.add(stream)
        if self._task is None:
            self._task = asyncio.ensure_future(self._keep())
        try:
            yield
        finally:
            self._streams.discard(stream)

    async def aclose(self) -> None:
        """Wait for the keeper's own task, once the node is stopping."""
        if self._task is not None:
            await self._task

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while self._streams and not self._closing.has_begun:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._closing.wait()
            self.seconds += loop.time() - begun
            begun = loop.time()
            for stream in list(self._streams):
                stream.tick(self.seconds)
            await self._check_access()
        self._task = None
        for stream in list(self._streams):
            stream.end()

    async def _check_access(self) -> None:
        """Authenticate the streams again, once for all that presented the same."""
        groups: dict[tuple[str, bytes | None], list[KeptStream]] = {}
        for stream in self._streams:
            request = stream.request
            presented = (request.identity.name, request.headers.get(b"authorization"))
            groups.setdefault(presented, []).append(stream)
        for streams in groups.values():
            try:
                await self._guard.authenticate(streams[0].request)
            except (AccessError, HttpError) as error:
                for stream in streams:
                    stream.end(_problem(error))
            except HeadraceError as error:
                # The store is away: what is not known is not held against a client.
                _log.debug("access was not checked: %s", words_of(error))


def _problem(error: HeadraceError | HttpError) -> Problem:
    return error.problem if isinstance(error, HttpError) else problem_of(error)
