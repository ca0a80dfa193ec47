"""Requests to a node's application without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.node.app import NodeApp


class Answer:
    """A response as it was sent."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.is_complete = False
        self.progress = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.chunks.append(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        self.progress.set()

    async def until(self, text: bytes) -> None:
        """Wait until the body contains a text."""
        async with asyncio.timeout(30):
            while text not in self.body:
                self.progress.clear()
                await self.progress.wait()


class Call:
    """A request that runs: its client can leave."""

    def __init__(
        self,
        app: NodeApp,
        method: str,
        path: str,
        *,
        chunks: Sequence[bytes | None] = (b"",),
        headers: Mapping[str, str] | None = None,
        client: tuple[str, int] | None = ("127.0.0.1", 1),
        server: tuple[str, int | None] | None = ("127.0.0.1", 7070),
        answer: Answer | None = None,
    ) -> None:
        self.answer = answer or Answer()
        self.left = asyncio.Event()
        self._chunks = list(chunks)
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
            "client": client,
            "server": server,
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self.answer.send))

    async def _receive(self) -> Mapping[str, Any]:
        if self._chunks:
            chunk = self._chunks.pop(0)
            if chunk is None:
                # A client that stays, and sends no more.
                await asyncio.Event().wait()
            return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks)}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def ask(app: NodeApp, method: str, path: str, **options: Any) -> Answer:
    """Send a request and wait for the whole response."""
    call = Call(app, method, path, **options)
    async with asyncio.timeout(30):
        await call.task
    return call.answer


async def run(app: NodeApp, operation: str, /, *, header: Any = None, **arguments: Any) -> Answer:
    """Run an operation, in JSON."""
    return await ask(
        app,
        "POST",
        f"/api/v1/operations/{operation}",
        chunks=[msgspec.json.encode(arguments)],
        headers={"content-type": "application/json", **(header or {})},
    )
