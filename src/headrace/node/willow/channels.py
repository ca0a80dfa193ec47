"""Willow's channels: the key-values inside a queue under which items wait."""

from __future__ import annotations

from typing import Any

from headrace.core.channels import ChannelInfo
from headrace.errors import UnknownQueue
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.node.willow.route import Call, WillowRoute

PAGE = 1000


async def query_channels(call: Call) -> list[Any]:
    query = Query.from_json(call.body)
    channels = call.hr.queue(call["queue"]).channels
    found: list[Any] = []
    after: KeyValues | None = None
    while True:
        try:
            page = await channels.list(query, after=after, limit=PAGE)
        except UnknownQueue:
            # Willow's answer for a queue that there is not.
            return found
        found += map(_shown, page)
        if len(page) < PAGE:
            return found
        after = page[-1].key_values


async def delete_channel(call: Call) -> None:
    pairs = KeyValues.from_json(call.body, "")
    await call.hr.queue(call["queue"]).channels.delete(Query.exactly(pairs))


def _shown(info: ChannelInfo) -> Any:
    return {
        "Spec": {"DBDefinition": {"KeyValues": info.key_values.to_json()}},
        "State": {"EnqueuedItems": info.waiting, "ProcessingItems": info.active},
    }


_CHANNELS = "/v1/queues/{queue}/channels"

ROUTES = [
    WillowRoute(ways=(("GET", _CHANNELS), ("POST", f"{_CHANNELS}/query")), handle=query_channels),
    WillowRoute(ways=(("DELETE", _CHANNELS),), handle=delete_channel, status=204),
]
