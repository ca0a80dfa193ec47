"""Server-Sent Events: the records of a topic as they are committed.

A stream that is up to date costs no work of its own: the topic's head hands it encoded records, and
they go to the server immediately. Only when a client is slower than that its stream goes on by itself,
with pages of the store, so it never has more than a piece waiting in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from headrace.contract.wire import Problem
from headrace.errors import HeadraceError
from headrace.node.http import HttpRequest, Send, resume
from headrace.node.problems import problem_of
from headrace.node.streams.head import News
from headrace.node.streams.reader import Overtaken, TopicStreamReader
from headrace.node.streams.records import body_message, pieces_of

COMMENT_SECONDS = 15.0
STALLED_SECONDS = 60.0
"""A client that has read nothing for so long is cut off. It may come back with its last id."""
RETRY_MS = 1000

_BEGIN = body_message(b"retry: %d\n\n" % RETRY_MS)
_COMMENT = body_message(b":\n\n")
_encode = msgspec.json.encode


class EventStream:
    """One stream to one client. ``send`` is the server's."""

    def __init__(self, request: HttpRequest, reader: TopicStreamReader, send: Send) -> None:
        self.request = request
        self._reader = reader
        self._send = send
        self._end: asyncio.Future[Problem | None] = asyncio.get_running_loop().create_future()
        # Set while the head delivers; its result is that the stream is to go on by itself.
        self._following: asyncio.Future[None] | None = None
        # A message that the client was too slow for, and what it waits for.
        self._unsent: tuple[Coroutine[Any, Any, None], Any] | None = None
        self._is_sending = False
        self._seconds = 0.0
        self._sent_at = 0.0

    async def run(self) -> Problem | None:
        """Send until the client leaves (None), or until ``end``."""
        sending = asyncio.ensure_future(self._run())
        leaving = asyncio.ensure_future(self.request.disconnected())
        sending.add_done_callback(self._on_sending_done)
        leaving.add_done_callback(lambda _: self.end())
        try:
            return await self._end
        finally:
            self._reader.head.leave(self)
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            if self._unsent is not None:
                self._unsent[0].close()

    def end(self, problem: Problem | None = None) -> None:
        if not self._end.done():
            self._end.set_result(problem)

    def _on_sending_done(self, sending: asyncio.Task[None]) -> None:
        if sending.cancelled() or self._end.done():
            return
        error = sending.exception()
        if isinstance(error, HeadraceError):
            self.end(problem_of(error))
        elif error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._end.done():
            self._end.set_exception(error)

    def tick(self, seconds: float) -> None:
        self._seconds = seconds
        if self._is_sending:
            if seconds - self._sent_at > STALLED_SECONDS:
                self.request.abort()
                self.end()
        elif self._following is not None and seconds - self._sent_at >= COMMENT_SECONDS:
            self._offer(_COMMENT)

    async def _run(self) -> None:
        await self._send_now(_BEGIN)
        while True:
            found = await self._reader.read()
            if isinstance(found, Overtaken):
                await self._send_now(_overtaken(found))
                self._reader.went_on(found.last + 1)
            elif found:
                for piece in pieces_of(found):
                    await self._send_now(piece.message)
                    self._reader.went_on(piece.next_seq)
            elif self._reader.head.join(self, self._reader.end):
                await self._follow()

    async def _send_now(self, message: Mapping[str, Any]) -> None:
        self._is_sending = True
        await self._send(message)
        self._is_sending = False
        self._sent_at = self._seconds

    async def _follow(self) -> None:
        """Wait until the head can no longer deliver to this stream, and catch up with it."""
        self._following = asyncio.get_running_loop().create_future()
        try:
            await self._following
        finally:
            self._following = None
        if self._unsent is not None:
            unsent, self._unsent = self._unsent, None
            await resume(*unsent)
            self._is_sending = False
            self._sent_at = self._seconds

    def deliver(self, news: News) -> None:
        seq = self._reader.seq
        if seq == news.first:
            for piece in news.pieces:
                self._reader.went_on(piece.next_seq)
                if not self._offer(piece.message):
                    return
        elif seq is None or seq < news.following:
            self.wake()

    def wake(self) -> None:
        self._reader.head.leave(self)
        if self._following is not None and not self._following.done():
            self._following.set_result(None)

    def _offer(self, message: Mapping[str, Any]) -> bool:
        """Send a message if the client is ready for it; else the stream leaves the head with it."""
        sending: Coroutine[Any, Any, None] = self._send(message)  # type: ignore[assignment]  # a coroutine function
        try:
            waits_for = sending.send(None)
        except StopIteration:
            self._sent_at = self._seconds
            return True
        except Exception as error:  # raised by ``run``: others are served at the same time
            self._fail(error)
            return False
        self._is_sending = True
        self._unsent = (sending, waits_for)
        self.wake()
        return False


def _overtaken(overtaken: Overtaken) -> Mapping[str, Any]:
    return body_message(b"event: overtaken\ndata: %b\n\n" % _encode(overtaken.problem))


def last_event(problem: Problem) -> bytes:
    """The event that says why a stream ends."""
    return b"event: problem\ndata: %b\n\n" % _encode(problem)
