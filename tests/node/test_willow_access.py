"""Willow's API with tokens: scopes hold as everywhere, and refusals are in Willow's form."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from asgi import Answer, Call
from willow_words import (
    CHANNELS,
    COUNTERS,
    ITEMS,
    RULES,
    asked,
    counter,
    delivery,
    item,
    limited,
    lock,
)

from headrace.contract.store import Store
from headrace.contract.tokens import NewToken
from headrace.model.access_tokens import new_token
from headrace.model.query.key_values import KeyValues
from headrace.node.app import NodeApp
from headrace.node.shutdown import Closing
from headrace.node.token_guard import TokenGuard
from headrace.node.willow.delivery import ItemDelivery, check_of
from headrace.node.willow.locks import _lock_id
from headrace.node.willow.route import WillowRoute
from headrace.node.willow.serve import ROUTES
from headrace.stores import open_store

WAYS = [way for route in ROUTES for way in route.ways]


class Client:
    """Requests with one token, or with none."""

    def __init__(self, app: NodeApp, store: Store, *scopes: str) -> None:
        self._app = app
        self._headers = {"host": "localhost:7070"}
        if scopes:
            self.use(_issue(store, *scopes))

    def use(self, token: str) -> None:
        """Present a token as the password of Basic."""
        login = base64.b64encode(f":{token}".encode()).decode()
        self._headers["authorization"] = f"Basic {login}"

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        text = b"" if body is None else msgspec.json.encode(body)
        call = Call(
            self._app,
            method,
            path,
            chunks=[text],
            headers={**self._headers, "content-length": str(len(text)), **headers},
        )
        await call.task
        return call.answer


def _issue(store: Store, *scopes: str) -> str:
    text = new_token()
    new = NewToken(id=text.id, hash=text.hash, name="test", scopes=scopes, ttl_ms=None)
    store.run(store.tokens.create(new))
    return text.text


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[NodeApp, Store]]:
    store = open_store("memory://")
    stopping = Closing()
    guard = TokenGuard(store, stopping)
    app = NodeApp(store, guard=guard, closing=stopping)
    try:
        yield app, store
    finally:
        await app.aclose()
        await guard.aclose()
        store.close()


async def test_every_route_needs_a_token() -> None:
    async with serving() as (app, store):
        nobody, stranger = Client(app, store), Client(app, store)
        stranger.use(new_token().text)
        for method, path in WAYS:
            for client in (nobody, stranger):
                answer = await client(method, path.replace("{", "").replace("}", ""), {})
                assert answer.status == 401, (method, path)
                assert set(answer.json) == {"Message", "code"}
                assert answer.headers["www-authenticate"]


MAC = KeyValues.of({"os": "mac"})
NAMED = {"ItemID": ItemDelivery(1, "x", 5, check_of(MAC.form)).id, "KeyValues": MAC.to_json()}
SESSION = {"SessionID": "s.5"}
QUEUE = {"Spec": {"DBDefinition": {"Name": "q"}, "Properties": {"MaxItems": 1}}}
MATCH = {"KeyValues": {"os": {key: v for key, v in asked("mac").items() if key != "Comparison"}}}
BODIES: dict[str, Any] = {
    "create_queue": QUEUE,
    "update_queue": {"MaxItems": 1},
    "delete_channel": MAC.to_json(),
    "enqueue_item": item(),
    "ack_item": {**NAMED, "Passed": True},
    "heartbeat_item": NAMED,
    "create_rule": limited(1, os="mac"),
    "match_rules": MATCH,
    "update_rule": {"Limit": 1},
    "create_override": limited(1, os="mac"),
    "match_overrides": MATCH,
    "update_override": {"Limit": 1},
    "update_counter": counter(1, os="mac"),
    "set_counter": counter(1, os="mac"),
    "obtain_lock": lock(os="mac"),
    "heartbeat_lock": SESSION,
    "release_lock": SESSION,
}
"""A body for each handler that does not get an empty one."""


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.handle.__name__)
async def test_a_token_for_something_else_is_refused(route: WillowRoute) -> None:
    """Whether the queue or the rule exists makes no difference."""
    names = {"queue": "q", "rule": "r", "override": "o", "lock": _lock_id(MAC.form)}
    async with serving() as (app, store):
        client = Client(app, store, "read:topic/x", "push:queue/other", "work:proc/*")
        for method, path in route.ways:
            body = BODIES.get(route.handle.__name__, {})
            answer = await client(method, path.format(**names), body)
            assert (answer.status, answer.json["code"]) == (403, "not_allowed"), answer.json
            assert "headrace token create" in answer.json["Message"]


async def test_producers_and_consumers_need_no_more_than_their_part() -> None:
    async with serving() as (app, store):
        owner = Client(app, store, "admin")
        for name in ("q", "other"):
            spec = {"DBDefinition": {"Name": name}, "Properties": {"MaxItems": 9}}
            assert (await owner("POST", "/v1/queues", {"Spec": spec})).status == 201
        producer, consumer = (
            Client(app, store, "push:queue/q"),
            Client(app, store, "work:queue/q"),
        )
        assert (await producer("POST", ITEMS, item())).status == 201
        assert (await producer("GET", ITEMS, {})).status == 403
        assert (await consumer("POST", ITEMS, item())).status == 403
        taken = (await consumer("GET", ITEMS, {})).json
        for path, more in (("heartbeat", {}), ("ack", {"Passed": True})):
            body = {**delivery(taken), **more}
            assert (await producer("POST", f"{ITEMS}/{path}", body)).status == 403
            assert (await consumer("POST", f"{ITEMS}/{path}", body)).status == 200
        other = CHANNELS.replace("/q/", "/other/")
        for client in (producer, consumer):
            assert (await client("POST", f"{other}/items", item())).status == 403
            assert (await client("GET", f"{other}/items", {})).status == 403
        for client in (producer, consumer):
            assert (await client("POST", RULES, limited(1, os="mac"))).status == 403
            assert (await client("PUT", COUNTERS, counter(1, os="mac"))).status == 403


async def test_a_producer_does_not_learn_which_queues_there_are() -> None:
    async with serving() as (app, store):
        owner, producer = Client(app, store, "admin"), Client(app, store, "push:queue/q")
        spec = {"DBDefinition": {"Name": "other"}, "Properties": {"MaxItems": 9}}
        assert (await owner("POST", "/v1/queues", {"Spec": spec})).status == 201
        answers = [
            (await producer("POST", ITEMS.replace("/q/", f"/{name}/"), item())).status
            for name in ("other", "none")
        ]
        assert answers == [403, 403]
        assert (await producer("POST", ITEMS, item())).status == 404


async def test_pages_of_other_sites_are_refused() -> None:
    """The body need not say that it is JSON, so any page could send it."""
    async with serving() as (app, store):
        owner = Client(app, store, "admin")
        spec = {"Spec": {"DBDefinition": {"Name": "q"}, "Properties": {"MaxItems": 9}}}
        for header, status, code in (
            ({"origin": "https://evil.example"}, 403, "foreign_origin"),
            ({"host": "evil.example"}, 421, "misdirected_request"),
        ):
            answer = await owner("POST", "/v1/queues", spec, **header)
            assert (answer.status, answer.json["code"]) == (status, code)
            assert answer.json["Message"]
