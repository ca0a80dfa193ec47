"""Connections of WebSockets: what our server adds to the protocol of the one that we use."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headrace.node.http import ABORT

CUT_OFF_SECONDS = 1.0
"""How long a client has to read the last that is sent to it."""

_BAD_HANDSHAKE = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s"
)
_PROBLEM = (
    b'{"type":"urn:headrace:problem:bad_handshake","title":"Bad handshake","status":400,'
    b'"detail":"this is not how a WebSocket begins: its headers are malformed, too many or too '
    b'long.","code":"bad_handshake","retryable":false}'
)


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection that ends when it should, even if its client has stopped to read."""

    _cut_off: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cut_off is not None:
            self._cut_off.cancel()
        super().connection_lost(exc)

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            # The task that has got it begins later.
            self.scope["extensions"][ABORT] = self.transport.abort  # type: ignore[assignment]  # ours

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal is an answer: nothing is missing, and nothing is to be logged.
            self.handshake_complete = True

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated:
            # It came as a whole, so it will never be complete.
            self.transport.write(_BAD_HANDSHAKE % (len(_PROBLEM), _PROBLEM))
            self.transport.close()

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._cut_off_soon()

    def handle_close(self, event: Any) -> None:
        super().handle_close(event)
        self._cut_off_soon()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._cut_off_soon()

    def shutdown(self) -> None:
        super().shutdown()
        self._cut_off_soon()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._cut_off_soon()

    def _cut_off_soon(self) -> None:
        """A transport that is closed waits for its client to read, without limit."""
        if self._cut_off is None and not self.disconnected:
            self._cut_off = self.loop.call_later(CUT_OFF_SECONDS, self.transport.abort)
