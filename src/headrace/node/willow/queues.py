"""Willow's queues: a name and ``MaxItems``."""

from __future__ import annotations

from typing import Any

from headrace.core.queue_settings import QueueOptions
from headrace.errors import UnknownQueue
from headrace.model.checks import MAX_COUNT
from headrace.model.queues.settings import QueueInfo
from headrace.node.willow.objects import UNLIMITED, Object, whole
from headrace.node.willow.route import Call, WillowRoute

PAGE = 1000
SETTINGS: QueueOptions = {"discipline": "fifo", "reject_delay": 0, "max_crashes": -1}
"""How a queue of Willow works: the oldest item first, retries immediately, and a lease that ran out is
a failed attempt like any other."""


async def create_queue(call: Call) -> None:
    about, properties = whole(call.body, {"Name": ()}, {"MaxItems": ()})
    settings: QueueOptions = {**SETTINGS, "max_items": _max_items(properties)}
    await call.hr.queues.create(about.text("Name"), **settings)


async def list_queues(call: Call) -> list[Any]:
    found: list[Any] = []
    after = ""
    while True:
        page = await call.hr.queues.list(after=after, limit=PAGE)
        found += map(_shown, page)
        if len(page) < PAGE:
            return found
        after = page[-1].name


async def get_queue(call: Call) -> Any:
    return _shown(await call.store.arun(call.store.queues.info(call["queue"])))


async def update_queue(call: Call) -> None:
    limit = _max_items(Object(call.body, {"MaxItems": ()}))
    await call.hr.queue(call["queue"]).update(max_items=limit)


async def delete_queue(call: Call) -> None:
    try:
        await call.hr.queue(call["queue"]).drop()
    except UnknownQueue:
        return


def _max_items(properties: Object) -> int:
    return properties.number("MaxItems", UNLIMITED, MAX_COUNT)


def _shown(info: QueueInfo) -> Any:
    spec = {
        "DBDefinition": {"Name": info.name},
        "Properties": {"MaxItems": info.settings.max_items},
    }
    return {"Spec": spec, "State": {"Deleting": False}}


_QUEUES = "/v1/queues"
_QUEUE = "/v1/queues/{queue}"

ROUTES = [
    WillowRoute(ways=(("POST", _QUEUES),), handle=create_queue, status=201),
    WillowRoute(ways=(("GET", _QUEUES),), handle=list_queues, has_body=False),
    WillowRoute(ways=(("GET", _QUEUE),), handle=get_queue, has_body=False),
    WillowRoute(ways=(("PUT", _QUEUE),), handle=update_queue),
    WillowRoute(ways=(("DELETE", _QUEUE),), handle=delete_queue, has_body=False, status=204),
]
