"""A WebSocket over ASGI."""

from __future__ import annotations

from typing import Any

from headrace.node.http import Disconnected, Headers, HttpRequest, Receive, Response, Scope, Send

SOCKET_PATH = "/api/v1/socket"
NODE_STOPS = 1012
ACCESS_ENDED = 1008


class WebSocket:
    """One socket, from the side of the node. ``request`` is the one that it began with."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.request = HttpRequest({**scope, "method": "GET"}, receive)
        self._extensions = scope.get("extensions") or {}
        self._receive = receive
        self._send = send
        self._sending = 0

    @property
    def is_sending(self) -> bool:
        """Whether messages wait for a client that reads slowly."""
        return self._sending > 0

    async def accept(self, headers: Headers) -> None:
        """Begin."""
        await self._receive()
        await self._send({"type": "websocket.accept", "headers": headers})

    async def refuse(self, response: Response, headers: Headers = ()) -> None:
        """Answer like any other request, and do not begin."""
        await self._receive()
        if "websocket.http.response" not in self._extensions:
            await self._send({"type": "websocket.close"})
            return
        head = [
            *headers,
            (b"content-type", response.content_type.encode()),
            (b"content-length", b"%d" % len(response.body)),
            (b"connection", b"close"),
            *response.headers,
        ]
        await self._send(
            {"type": "websocket.http.response.start", "status": response.status, "headers": head}
        )
        await self._send({"type": "websocket.http.response.body", "body": response.body})

    async def receive(self) -> bytes | str | None:
        """The next message; None once the client has left."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return None
        text: bytes | str | None = message.get("text")
        return message["bytes"] if text is None else text

    async def send(self, text: bytes) -> None:
        """Send a message; waits while the client reads more slowly. ``Disconnected`` if it left."""
        await self._pass({"type": "websocket.send", "text": text.decode()})

    async def close(self, code: int, reason: str = "") -> None:
        """End it, from this side."""
        await self._pass({"type": "websocket.close", "code": code, "reason": reason})

    async def _pass(self, message: dict[str, Any]) -> None:
        self._sending += 1
        try:
            await self._send(message)
        except OSError:
            # So a server says that there is nobody to receive it.
            raise Disconnected from None
        finally:
            self._sending -= 1
