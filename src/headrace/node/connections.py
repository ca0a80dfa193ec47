"""Connections to a node: how many there may be, and how long and slow the headers of a request.

The server limits none of these, so that one client could occupy all memory and all descriptors
without a token. ``node.http`` limits bodies.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.node.http import ABORT

MAX_HEAD_BYTES = 64 * 1024
"""How much is read before the headers of a request are complete. What comes in one piece may be
longer: the guard refuses it then."""
HEAD_SECONDS = 30.0
REST_SECONDS = 30.0
"""For how long the rest of a body may come when its request was refused before its end."""
MAX_CONNECTIONS = 2000
OTHER_DESCRIPTORS = 256
"""Descriptors that a node needs beyond its connections: for its store, above all."""

_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"retry-after: 1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
)
_PROBLEM = (
    b'{"type":"urn:headrace:problem:too_many_connections","title":"Too many connections",'
    b'"status":503,"detail":"the node has as many connections as it can: try again later.",'
    b'"code":"too_many_connections","retryable":true}'
)


def connection_limit() -> int:
    """How many connections a node accepts; lets the process have as many descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft - OTHER_DESCRIPTORS))


class NodeConnection(HttpToolsProtocol):
    """One connection. It ends if the headers of a request are too long, or take too long, or if a
    client goes on to send a body that nobody reads."""

    limit = MAX_CONNECTIONS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._is_upgraded = False
        self._deadline: asyncio.TimerHandle | None = None
        self._rest_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as there
        super().connection_made(transport)
        self._extensions = {ABORT: transport.abort}
        if len(self.connections) > self.limit:
            transport.write(_REFUSAL % (len(_PROBLEM), _PROBLEM))
            transport.close()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.close()
        elif self._is_upgraded:
            pass  # the connection belongs to a WebSocket
        elif self._is_idle() and self.timeout_keep_alive_task is None:
            # Empty lines before a request have ended the keep-alive time, and begin no message.
            self._expect_head()

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def _is_idle(self) -> bool:
        cycle = self.cycle
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]  # ours
        if self._deadline is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Pipelined requests have a cycle that is not complete.
        if self.cycle.response_complete and self.cycle.more_body:
            self._rest_deadline = self.loop.call_later(REST_SECONDS, self.transport.close)

    def on_message_complete(self) -> None:
        self._end_rest()
        super().on_message_complete()

    def _end_rest(self) -> None:
        if self._rest_deadline is not None:
            self._rest_deadline.cancel()
            self._rest_deadline = None

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _end_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
