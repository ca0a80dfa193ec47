"""``/queues/{queue}/channels``: lines inside a queue."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.contract.items import Deleted
from headrace.core.channels import ChannelInfo
from headrace.core.where import where
from headrace.model.query.queries import Query
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.key_values import Named, QueryBody, query_of
from headrace.node.resources.pages import ListPage, page
from headrace.node.resources.values import Seconds, Time


class ChannelDelay(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Until when no item of a channel is claimed."""

    at: Time | None = None
    delay: Seconds | None = None


class SelectBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The channels that a query selects."""

    select: Any


class ChannelPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some channels of a queue."""

    channels: list[ChannelInfo]
    next: str | None


async def query_channels(call: ApiCall[QueryBody, None]) -> ListPage:
    body, channels = call.body, call.hr.queue(call["queue"]).channels
    limit = body.checked_limit
    found = await channels.list(body.query, after=body.place("channels"), limit=limit)
    return page("channels", found, limit, lambda info: info.key_values.form)


async def get_channel(call: ApiCall[Named, None]) -> ChannelInfo:
    return await call.hr.queue(call["queue"]).channels.get(call.body.typed)


async def delay_channel(call: ApiCall[ChannelDelay, None]) -> dict[str, datetime]:
    body, channels = call.body, call.hr.queue(call["queue"]).channels
    until = await channels.delay(body.typed, at=body.at, delay=body.delay)
    return {"delayed_until": until}


async def end_channel_delay(call: ApiCall[Named, None]) -> None:
    await call.hr.queue(call["queue"]).channels.end_delay(call.body.typed)


async def delete_channels(call: ApiCall[SelectBody, None]) -> Deleted:
    query = query_of(call.body.select) or Query()
    return await call.hr.queue(call["queue"]).channels.delete(query)


async def register_selection(call: ApiCall[SelectBody, None]) -> None:
    query = query_of(call.body.select) or Query()
    await call.hr.queue(call["queue"]).selections.register(query)


async def forget_selection(call: ApiCall[SelectBody, None]) -> dict[str, bool]:
    query = query_of(call.body.select) or Query()
    return {"forgotten": await call.hr.queue(call["queue"]).selections.forget(query)}


async def list_selections(call: ApiCall[None, None]) -> dict[str, list[Any]]:
    found = await call.hr.queue(call["queue"]).selections.list()
    return {"selections": [query.to_json() for query in found]}


_CHANNELS = "/queues/{queue}/channels"
_SELECTIONS = "/queues/{queue}/selections"
_SELECTION = {"select": where(os="linux").to_json()}
_NAMED = {"key_values": {"os": "linux"}}

ENDPOINTS = [
    Endpoint(
        method="POST",
        path=f"{_CHANNELS}/query",
        summary="List channels",
        handle=query_channels,
        body=QueryBody,
        answer=ChannelPage,
        example={"limit": 10},
    ),
    Endpoint(
        method="POST",
        path=f"{_CHANNELS}/get",
        summary="Read a channel",
        handle=get_channel,
        body=Named,
        answer=ChannelInfo,
        example=_NAMED,
    ),
    Endpoint(
        method="POST",
        path=f"{_CHANNELS}/delay",
        summary="Delay a channel",
        handle=delay_channel,
        body=ChannelDelay,
        answer=dict[str, datetime],
        example={**_NAMED, "delay": "1m"},
    ),
    Endpoint(
        method="POST",
        path=f"{_CHANNELS}/end-delay",
        summary="End the delay of a channel",
        handle=end_channel_delay,
        body=Named,
        status=204,
        example=_NAMED,
    ),
    Endpoint(
        method="POST",
        path=f"{_CHANNELS}/delete",
        summary="Delete channels with their items",
        handle=delete_channels,
        body=SelectBody,
        answer=Deleted,
        example={"select": {}},
    ),
    Endpoint(
        method="GET",
        path=_SELECTIONS,
        summary="List the queries that claims select by",
        handle=list_selections,
        answer=dict[str, list[Any]],
    ),
    Endpoint(
        method="POST",
        path=f"{_SELECTIONS}/register",
        summary="Say that claims will select by a query",
        handle=register_selection,
        body=SelectBody,
        status=204,
        example=_SELECTION,
    ),
    Endpoint(
        method="POST",
        path=f"{_SELECTIONS}/forget",
        summary="Say that claims select by a query no more",
        handle=forget_selection,
        body=SelectBody,
        answer=dict[str, bool],
        example=_SELECTION,
    ),
]
