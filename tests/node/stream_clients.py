"""Clients of streams and of sockets, without a server between them and the application."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from asgi import Answer, Call, ask

from headrace.contract.store import Store
from headrace.contract.tokens import NewToken
from headrace.contract.values import CommitCall, CommitPart
from headrace.model.access_tokens import TokenText, new_token
from headrace.model.codec import encode_body
from headrace.node.app import NodeApp
from headrace.node.guard import Guard, OpenGuard
from headrace.node.shutdown import Closing
from headrace.node.token_guard import TokenGuard
from headrace.stores import open_store

STREAM = "/api/v1/topics/orders/stream"
JSON = {"content-type": "application/json"}
HOST = {"host": "localhost:7070"}


@asynccontextmanager
async def serving(url: str, *, guard: Any = None, **options: Any) -> AsyncIterator[NodeApp]:
    """An application, until it has ended. Nothing that it started may be left then."""
    others = asyncio.all_tasks()
    store = open_store(url, **options)
    stopping = Closing()
    made: Guard = OpenGuard() if guard is None else guard(store, stopping)
    app = NodeApp(store, guard=made, closing=stopping)
    try:
        yield app
    finally:
        await app.aclose()
        if guard is not None:
            await made.aclose()  # type: ignore[attr-defined]  # a guard with tokens
        await store.aclose()
        store.close()
    async with asyncio.timeout(30):
        while left := asyncio.all_tasks() - others:
            await asyncio.wait(left)
    assert waiting_threads() == []


def waiting_threads() -> list[str]:
    """Threads that wait for a word."""
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name in ("headrace-orders", "headrace-queue/mail")]


async def commit(app: NodeApp, *bodies: Any, topic: str = "orders", **options: Any) -> list[str]:
    """Commit records; their ids."""
    body = msgspec.json.encode({"records": [{"body": body, **options} for body in bodies]})
    path = f"/api/v1/topics/{topic}/records"
    answer = await ask(app, "POST", path, chunks=[body], headers={**HOST, **JSON})
    assert answer.status == 201, answer.body
    ids: list[str] = answer.json["ids"]
    return ids


async def commit_to(store: Store, *bodies: Any) -> None:
    """Commit records without a node."""
    lines = "\n".join(encode_body(body) for body in bodies)
    call = CommitCall(parts=(CommitPart("orders", len(bodies), lines),))
    await store.arun(store.topics.commit([call]))


class Events:
    """A stream of events, as far as its client has received it. The client may stop to read."""

    call: Call

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.is_blocked = asyncio.Event()

    @property
    def blocks(self) -> list[dict[str, str]]:
        """Each event by its fields; comments are left out."""
        blocks = []
        for text in self.call.answer.body.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in text.split("\n") if line[0] != ":")
            if fields:
                blocks.append(fields)
        return blocks

    @property
    def records(self) -> list[Any]:
        return [
            msgspec.json.decode(block["data"])
            for block in self.blocks
            if "event" not in block and "data" in block
        ]

    @property
    def ids(self) -> list[str]:
        ids = [block["id"] for block in self.blocks if "id" in block]
        assert ids == [record["id"] for record in self.records]
        return ids

    def told(self, event: str) -> Any:
        """The problem that an event told."""
        [text] = [block["data"] for block in self.blocks if block.get("event") == event]
        return msgspec.json.decode(text)

    async def until(self, count: int) -> None:
        """Wait for so many records."""
        async with asyncio.timeout(30):
            while len(self.ids) < count:
                self.call.answer.progress.clear()
                await self.call.answer.progress.wait()

    async def end(self) -> None:
        """Wait until the stream has ended by itself."""
        async with asyncio.timeout(30):
            await self.call.task
        assert self.call.answer.is_complete

    async def leave(self) -> None:
        """The client leaves, and the stream ends."""
        self.call.left.set()
        async with asyncio.timeout(30):
            await self.call.task


class SlowAnswer(Answer):
    """What a client receives when it reads."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events

    async def send(self, message: Mapping[str, Any]) -> None:
        events = self._events
        if not events.reads.is_set():
            events.is_blocked.set()
            await events.reads.wait()
            events.is_blocked.clear()
        await super().send(message)


async def listen(
    app: NodeApp, query: str = "", last_id: str | None = None, headers: Any = HOST
) -> Events:
    """Open a stream: what is committed from here on is new to it."""
    more: Mapping[str, str] = {} if last_id is None else {"last-event-id": last_id}
    events = Events()
    events.call = call = Call(
        app,
        "GET",
        STREAM + query,
        headers={**headers, **more},
        answer=SlowAnswer(events),
    )
    await call.answer.until(b"retry: 1000")
    return events


class Socket:
    """A WebSocket, and the messages that its client has received but not looked at."""

    def __init__(self, app: NodeApp, path: str = "/api/v1/socket", headers: Any = HOST) -> None:
        self.answer: dict[str, Any] = {}
        self.refusal = b""
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None
        self.reads = asyncio.Event()
        self.reads.set()
        self._sent: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._sent.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7070),
            "extensions": {"websocket.http.response": {}},
        }
        self.task = asyncio.ensure_future(app(scope, self._sent.get, self._receive))

    async def _receive(self, message: Mapping[str, Any]) -> None:
        await self.reads.wait()
        match message["type"]:
            case "websocket.send":
                self.received.put_nowait(msgspec.json.decode(message["text"]))
            case "websocket.close":
                self.closed = (message["code"], message["reason"])
            case "websocket.http.response.body":
                self.refusal += message["body"]
            case _:
                self.answer = dict(message)

    def send(self, text: str | bytes) -> None:
        kind = "text" if isinstance(text, str) else "bytes"
        self._sent.put_nowait({"type": "websocket.receive", kind: text})

    async def next(self) -> Any:
        """The next message."""
        async with asyncio.timeout(30):
            return await self.received.get()

    async def ask(self, **message: Any) -> Any:
        """The answer to a request; it must be the next message."""
        self.send(msgspec.json.encode(message).decode())
        answer = await self.next()
        assert answer["id"] == message["id"], answer
        return answer

    async def end(self) -> None:
        async with asyncio.timeout(30):
            await self.task

    async def leave(self) -> None:
        self._sent.put_nowait({"type": "websocket.disconnect", "code": 1005})
        await self.end()


def issue(store: Store, *scopes: str, ttl_ms: int | None = None) -> TokenText:
    """A new token with these scopes."""
    text = new_token()
    new = NewToken(id=text.id, hash=text.hash, name="test", scopes=scopes, ttl_ms=ttl_ms)
    store.run(store.tokens.create(new))
    return text


def bearer(text: TokenText) -> dict[str, str]:
    """The headers of a request with a token."""
    return {**HOST, "authorization": f"Bearer {text.text}"}


def with_tokens(**options: Any) -> Any:
    """A guard that knows tokens, for ``serving``."""
    return lambda store, closing: TokenGuard(store, closing, **options)
