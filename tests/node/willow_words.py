"""Requests to Willow's API, and short words for what is in them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from asgi import Answer, Call

from headrace.contract.store import Store
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY
from headrace.node.app import NodeApp
from headrace.node.guard import Guard, OpenGuard
from headrace.node.shutdown import Closing

N = (1, 1024)
"""Types that are not restricted."""
SECOND = 1_000_000_000
ITEMS = "/v1/queues/q/channels/items"
CHANNELS = "/v1/queues/q/channels"
RULES = "/v1/limiter/rules"
COUNTERS = "/v1/limiter/counters"


class Willow:
    """A node that is asked without a server. No request has a Content-Type."""

    def __init__(self, store: Store, guard: Guard | None = None) -> None:
        self.store = store
        self.closing = Closing()
        self.app = NodeApp(store, guard=guard or OpenGuard(), closing=self.closing)

    def begin(self, method: str, path: str, body: Any = None, **headers: str) -> Call:
        """A request that runs."""
        text = (
            b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        )
        headers = {"content-length": str(len(text)), **headers}
        return Call(self.app, method, path, chunks=[text], headers=headers)

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The answer to a request."""
        call = self.begin(method, path, body, **headers)
        async with asyncio.timeout(30):
            await call.task
        return call.answer

    async def ok(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The JSON of an answer with this status; None if it is empty."""
        answer = await self(method, path, body)
        assert answer.status == status, (answer.status, answer.body)
        return answer.json if answer.body else None

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the code of a refusal, which is in Willow's form."""
        answer = await self(method, path, body)
        assert set(answer.json) == {"Message", "code"}, answer.body
        assert answer.headers["content-type"] == "application/json"
        return answer.status, answer.json["code"]

    async def queue(self, name: str = "q", limit: int = -1) -> None:
        """Make a queue."""
        spec = {"DBDefinition": {"Name": name}, "Properties": {"MaxItems": limit}}
        await self.ok("POST", "/v1/queues", {"Spec": spec}, 201)

    async def push(self, data: str = "x", channel: Any = None, /, **fields: Any) -> None:
        """Enqueue an item into ``q``."""
        await self.ok("POST", ITEMS, item(data, channel, **fields), 201)

    async def pull(self, query: Any = None) -> Any:
        """Dequeue from ``q``."""
        return await self.ok("GET", ITEMS, {} if query is None else query)

    async def ack(self, taken: Any, passed: bool = True) -> Answer:
        """Ack what was dequeued."""
        return await self("POST", f"{ITEMS}/ack", {**delivery(taken), "Passed": passed})

    async def channels(self) -> dict[str, tuple[int, int]]:
        """How many items wait and are in flight in ``q``, by channel."""
        return {
            " ".join(text(one).values()): (
                one["State"]["EnqueuedItems"],
                one["State"]["ProcessingItems"],
            )
            for one in await self.ok("GET", CHANNELS, {})
        }

    async def rule(self, limit: int, of: str = "", **pairs: Any) -> str:
        """Make a rule, or an override of one; its id."""
        path = f"{RULES}/{of}/overrides" if of else RULES
        made = await self.ok("POST", path, limited(limit, **pairs), 201)
        id: str = made["State"]["ID"]
        return id

    async def count(self, number: int = 1, **pairs: Any) -> int:
        """Add to a counter; the status."""
        return (await self("PUT", COUNTERS, counter(number, **pairs))).status


@asynccontextmanager
async def serving(store: Store, **options: Any) -> AsyncIterator[Willow]:
    """A node over a store, which stops at the end."""
    willow = Willow(store, **options)
    try:
        yield willow
    finally:
        await willow.app.aclose()
        await store.aclose()


def values(**pairs: Any) -> dict[str, Any]:
    """Typed values in Willow's JSON; None is any."""
    known = {key: ANY if value is None else value for key, value in pairs.items()}
    return KeyValues.of(known, allow_any=True).to_json()


def asked(value: Any, comparison: str = "=", types: tuple[int, int] = N) -> dict[str, Any]:
    """A comparison in Willow's JSON."""
    return {
        "Value": values(k=value)["k"],
        "Comparison": comparison,
        "TypeRestrictions": {"MinDataType": types[0], "MaxDataType": types[1]},
    }


def where(**pairs: Any) -> dict[str, Any]:
    """A query for equal values."""
    return {"Selection": {"KeyValues": {key: asked(value) for key, value in pairs.items()}}}


def encoded(data: str) -> str:
    return base64.b64encode(data.encode()).decode()


def decoded(taken: Any) -> str:
    """The data of what was dequeued."""
    return base64.b64decode(taken["Spec"]["Properties"]["Data"]).decode()


def item(
    data: str = "x",
    channel: Mapping[str, Any] | None = None,
    *,
    updateable: bool = False,
    retries: int = 5,
    position: str = "front",
    timeout: int = 60 * SECOND,
) -> dict[str, Any]:
    """An item as it is enqueued."""
    properties = {
        "Data": encoded(data),
        "Updateable": updateable,
        "RetryAttempts": retries,
        "RetryPosition": position,
        "TimeoutDuration": timeout,
    }
    about = {"KeyValues": values(**(channel or {"os": "linux"}))}
    return {"Spec": {"DBDefinition": about, "Properties": properties}}


def limited(limit: int, **pairs: Any) -> dict[str, Any]:
    """A rule or an override as it is made."""
    about = {"GroupByKeyValues": values(**pairs)}
    return {"Spec": {"DBDefinition": about, "Properties": {"Limit": limit}}}


def counter(number: int, **pairs: Any) -> dict[str, Any]:
    """A counter as it is updated."""
    about = {"KeyValues": values(**pairs)}
    return {"Spec": {"DBDefinition": about, "Properties": {"Counters": number}}}


def lock(timeout: int | None = None, **pairs: Any) -> dict[str, Any]:
    """A lock as it is obtained."""
    spec: dict[str, Any] = {"DBDefinition": {"KeyValues": values(**pairs)}}
    if timeout is not None:
        spec["Properties"] = {"Timeout": timeout}
    return {"Spec": spec}


def delivery(taken: Any) -> dict[str, Any]:
    """What an ack or a heartbeat says of what was dequeued."""
    pairs = taken["Spec"]["DBDefinition"]["KeyValues"]
    return {"ItemID": taken["State"]["ID"], "KeyValues": pairs}


def text(one: Any, name: str = "KeyValues") -> dict[str, str]:
    """The key-values of an object, as text."""
    pairs = one["Spec"]["DBDefinition"][name]
    return {key: value["Data"] for key, value in pairs.items()}
