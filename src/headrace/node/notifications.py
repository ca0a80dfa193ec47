"""The driver's notifications: a response without an end, with a byte per notification."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from headrace.contract.wire import HINT, KEEP_ALIVE
from headrace.node.guard import Guard, RequestIdentity
from headrace.node.http import HttpRequest, ResponseStream
from headrace.node.streams.slots import StreamSlots
from headrace.node.streams.words import Words

KEEP_ALIVE_SECONDS = 15.0


class NotificationHandler:
    """Streams the notifications of a store to clients elsewhere."""

    def __init__(self, words: Words, slots: StreamSlots, guard: Guard) -> None:
        self._words = words
        self._slots = slots
        self._guard = guard

    async def __call__(self, request: HttpRequest) -> ResponseStream:
        word = request.parameters["word"]
        self._guard.authorize_notifications(request.identity, word)
        # A client that is refused polls instead.
        self._slots.check(request.identity)
        return ResponseStream(self._hints(word, request.identity), content_type="text/plain")

    async def _hints(self, word: str, identity: RequestIdentity) -> AsyncIterator[bytes]:
        with self._slots.held(identity):
            async with contextlib.aclosing(self._hints_of(word)) as hints:
                async for hint in hints:
                    yield hint

    async def _hints_of(self, word: str) -> AsyncGenerator[bytes, None]:
        with self._words.listening(word) as (listener, is_ready):
            # From here on nothing is missed.
            await is_ready.wait()
            yield KEEP_ALIVE
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await listener.news.wait()
                except TimeoutError:
                    yield KEEP_ALIVE
                else:
                    listener.news.clear()
                    yield HINT
