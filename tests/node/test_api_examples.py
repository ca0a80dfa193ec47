"""Every endpoint has an example that works, on every store."""

from __future__ import annotations

from typing import Any

import msgspec
from asgi import Answer, ask

import headrace
from api_examples import ORDER, Request, Walk, prepare
from headrace.node.app import NodeApp
from headrace.node.guard import OpenGuard
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint
from headrace.node.shutdown import Closing
from headrace.stores import open_store


async def send(app: NodeApp, request: Request) -> Answer:
    endpoint = request.endpoint
    chunks = [b"" if request.body is None else msgspec.json.encode(request.body)]
    headers = {"content-length": str(len(chunks[0])), "content-type": "application/json"}
    return await ask(app, endpoint.method, request.path, chunks=chunks, headers=headers)


def check_answer(endpoint: Endpoint, answer: Any) -> None:
    """What an endpoint says of its answers is what it sends."""
    for kind in getattr(endpoint.answer, "__args__", (endpoint.answer,)):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(answer, dict):
            fields = msgspec.structs.fields(kind)
            if {one.encode_name for one in fields if one.required} <= set(answer):
                assert set(answer) <= {one.encode_name for one in fields}
                return
    assert not (isinstance(endpoint.answer, type) and issubclass(endpoint.answer, msgspec.Struct))


async def test_every_example_works(store_url: str) -> None:
    with headrace.connect(store_url) as hr:
        prepare(hr, hr._store)
    store = open_store(store_url)
    try:
        app = NodeApp(store, guard=OpenGuard(), closing=Closing())
        walk = Walk()
        for request in walk:
            answer = await send(app, request)
            endpoint = request.endpoint
            assert (endpoint.name, answer.status) == (endpoint.name, endpoint.status), answer.body
            if endpoint.status != 204:
                check_answer(endpoint, answer.json)
                walk.learn(endpoint, answer.json)
        await app.aclose()
    finally:
        await store.aclose()
        store.close()


def test_the_walk_has_every_endpoint() -> None:
    """Streams and the socket have tests of their own: they do not end."""
    names = {endpoint.name for endpoint in ENDPOINTS if endpoint.event is None}
    assert {step.name for step in ORDER} == names


def test_every_endpoint_has_what_a_document_of_it_needs() -> None:
    assert [one.name for one in ENDPOINTS if one.body is not None and one.example is None] == []
    answering = [one for one in ENDPOINTS if one.event is None]
    assert [one.name for one in answering if (one.answer is None) != (one.status == 204)] == []
    assert len({one.name for one in ENDPOINTS}) == len(ENDPOINTS)
    assert len({one.summary for one in ENDPOINTS}) == len(ENDPOINTS)
