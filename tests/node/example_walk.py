"""The examples of the API, sent to a node one after the other as its documents have them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec
from asgi import Answer, Call, ask

from headrace.contract.sinks import Fence, Publication
from headrace.contract.store import Store
from headrace.contract.values import ProcSpec
from headrace.model.pipelines import Definition
from headrace.model.topics.procs import ProcChanges
from headrace.node.app import NodeApp
from headrace.node.documents.example import (
    FROM_BEFORE,
    Example,
    ExampleRequest,
    refused_request,
    request_body,
    request_path,
)
from headrace.node.documents.examples import EXAMPLES
from headrace.node.documents.openapi import EVENTS
from headrace.node.guard import OpenGuard
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint
from headrace.node.resources.serve import BASE
from headrace.node.shutdown import Closing
from headrace.stores import open_store

_NUMBERS = re.compile(r"[0-9a-f]{16}|\d+")
BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}


class Reply(NamedTuple):
    """An answer: its status, its type and its JSON, if it has any."""

    status: int
    content_type: str
    body: Any


class Send(Protocol):
    """Sends a method, a path and a body, None for none.

    Of a stream the answer is what it sends first, to the end of the first event.
    """

    def __call__(self, method: str, path: str, body: Any, *, is_stream: bool = False) -> Reply: ...


class Step(NamedTuple):
    """What became of one example."""

    endpoint: Endpoint
    example: Example
    good: Reply
    refused: Reply


def prepare(store: Store) -> None:
    """The pipeline and the sink that examples name: programs make them, not the API."""
    run: Any = store.run
    run(
        store.pipelines.define(
            "totals",
            [ProcSpec(name="totals", topic="bills", offset=">")],
            Definition(processor="shop:total"),
            ProcChanges(),
        )
    )
    fence = Fence(sink="bills", query="daily", batch=1)
    run(store.sinks.publish(Publication(stages=(), fence=fence)))


@contextmanager
def memory_node() -> Iterator[Send]:
    """A new node in memory, with what examples need, in this process."""
    with asyncio.Runner() as runner:
        store = open_store("memory://")
        prepare(store)
        app = runner.run(_application(store))

        def send(method: str, path: str, body: Any, *, is_stream: bool = False) -> Reply:
            chunks = [b"" if body is None else msgspec.json.encode(body)]
            headers = {} if body is None else {"content-type": "application/json"}
            way = _first_event if is_stream else ask
            answer = runner.run(way(app, method, path, chunks=chunks, headers=headers))
            kind, text = answer.headers["content-type"], answer.body
            if kind == EVENTS:
                return Reply(answer.status, kind, text.decode())
            return Reply(answer.status, kind, msgspec.json.decode(text) if text else None)

        try:
            yield send
        finally:
            runner.run(app.aclose())
            store.close()


async def _application(store: Store) -> NodeApp:
    return NodeApp(store, guard=OpenGuard(), closing=Closing())


async def _first_event(app: NodeApp, method: str, path: str, **options: Any) -> Answer:
    call = Call(app, method, path, **options)
    await call.answer.until(b"\ndata:")
    await call.answer.until(b"\n\n")
    call.left.set()
    await call.task
    return call.answer


def shape(value: Any) -> Any:
    """What kind of JSON a value is: two answers to the same request are alike in that.

    Problems have the same words, too, but for numbers and hashes.
    """
    if isinstance(value, dict):
        words = {
            key: _NUMBERS.sub("#", value[key]) for key in ("code", "detail") if "code" in value
        }
        return {key: shape(inner) for key, inner in value.items()} | words
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    if isinstance(value, bool) or value is None:
        return value
    return "a number" if isinstance(value, int | float) else "a text"


class Walk:
    """Sends examples, and keeps the tokens that answers give."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._tokens: dict[str, str] = {}

    def steps(self) -> Iterator[Step]:
        for example in EXAMPLES:
            endpoint = BY_NAME[example.operation]
            for operation, request in example.before:
                reply = self.send(BY_NAME[operation], request)
                assert reply.status < 300, (operation, reply)
            if endpoint.message is None:
                good = self.send(endpoint, example.good, is_stream=endpoint.event is not None)
            else:
                # A WebSocket begins with it, and then it is no HTTP.
                good = Reply(endpoint.status, "", None)
            refused = self.send(endpoint, refused_request(endpoint, example))
            yield Step(endpoint, example, good, refused)

    def send(
        self, endpoint: Endpoint, request: ExampleRequest, *, is_stream: bool = False
    ) -> Reply:
        body = self._filled(request_body(endpoint, request))
        path = BASE + request_path(endpoint, request)
        reply = self._send(endpoint.method, path, body, is_stream=is_stream)
        self._keep(reply.body)
        return reply

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self._tokens[key] if inner == FROM_BEFORE else self._filled(inner)
                for key, inner in value.items()
            }
        return [self._filled(one) for one in value] if isinstance(value, list) else value

    def _keep(self, value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else ():
            if key in ("token", "session") and isinstance(inner, str):
                self._tokens[key] = inner
        for inner in _parts(value):
            if isinstance(inner, dict | list):
                self._keep(inner)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
