"""Counters of Willow's limiter: numbers that callers change themselves."""

from __future__ import annotations

from typing import Any

from headrace.core.counters import CounterInfo
from headrace.model.checks import MAX_COUNT
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.node.willow.objects import MAX_INT64, whole
from headrace.node.willow.route import Call, WillowRoute

PAGE = 1000


async def update_counter(call: Call) -> None:
    """Add if every limit has capacity for it, or subtract."""
    pairs, count = _read(call.body)
    if count:
        await call.hr.counters.add(pairs, count)


async def set_counter(call: Call) -> None:
    pairs, count = _read(call.body)
    await call.hr.counters.set(pairs, max(count, 0))


async def query_counters(call: Call) -> list[Any]:
    query = Query.from_json(call.body)
    found: list[Any] = []
    after: KeyValues | None = None
    while True:
        page = await call.hr.counters.list(query, after=after, limit=PAGE)
        found += map(_shown, page)
        if len(page) < PAGE:
            return found
        after = page[-1].key_values


def _read(body: Any) -> tuple[KeyValues, int]:
    about, properties = whole(body, {"KeyValues": ()}, {"Counters": ()})
    return about.key_values("KeyValues"), properties.number("Counters", -MAX_INT64, MAX_COUNT)


def _shown(info: CounterInfo) -> Any:
    spec = {
        "DBDefinition": {"KeyValues": info.key_values.to_json()},
        "Properties": {"Counters": info.count},
    }
    return {"Spec": spec, "State": {"Deleting": False}}


_COUNTERS = "/v1/limiter/counters"

ROUTES = [
    WillowRoute(ways=(("PUT", _COUNTERS),), handle=update_counter),
    WillowRoute(ways=(("PUT", f"{_COUNTERS}/set"),), handle=set_counter),
    WillowRoute(
        ways=(("GET", f"{_COUNTERS}/query"), ("POST", f"{_COUNTERS}/query")),
        handle=query_counters,
    ),
]
