"""``/queues/{queue}/items``: read and change single items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.client.items import Item
from headrace.core.why import Why
from headrace.errors import InvalidOption
from headrace.model.checks import MAX_COUNT
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.item_views import ItemPage, ItemView, view
from headrace.node.resources.json_encoder import encode
from headrace.node.resources.merge_patch import merged
from headrace.node.resources.pages import ListPage, PageQuery, long_page
from headrace.node.resources.values import Seconds, Time


class EditBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes of an item that waits: a patch of it (RFC 7396)."""

    payload: Any = UNSET
    priority: int | None = None
    at: Time | None = None
    delay: Seconds | None = None


class ItemQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which items to list."""

    state: str = "pending"


async def list_items(call: ApiCall[None, ItemQuery]) -> ListPage:
    queue, query = call.hr.queue(call["queue"]), call.query

    async def read(after: int, limit: int) -> Sequence[Item]:
        return await queue.items(query.state, after=after, limit=limit)

    return await long_page(
        "items",
        read,
        query.after("items", 0),
        query.checked_limit,
        lambda item: item.id,
        lambda item: encode(view(item)),
    )


async def get_item(call: ApiCall[None, None]) -> ItemView:
    return view(await call.hr.queue(call["queue"]).item(_id(call)))


async def edit_item(call: ApiCall[EditBody, None]) -> ItemView:
    body, queue = call.body, call.hr.queue(call["queue"])
    payload = body.payload
    if isinstance(payload, dict):
        payload = merged((await queue.item(_id(call))).payload, payload)
    edited = await queue.edit(
        _id(call), payload=payload, priority=body.priority, at=body.at, delay=body.delay
    )
    return view(edited)


async def cancel_item(call: ApiCall[None, None]) -> ItemView:
    return view(await call.hr.queue(call["queue"]).cancel(_id(call)))


async def retry_item(call: ApiCall[None, None]) -> ItemView:
    return view(await call.hr.queue(call["queue"]).retry(_id(call)))


async def explain_item(call: ApiCall[None, None]) -> Why:
    return await call.hr.queue(call["queue"]).why(_id(call))


def _id(call: ApiCall[Any, Any]) -> int:
    text = call["item"]
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_COUNT):
        raise InvalidOption(f"{text!r} is no id of an item: ids are numbers.", option="item")
    return int(text)


_QUEUE = "/queues/{queue}"
_ITEM = f"{_QUEUE}/items/{{item}}"

ENDPOINTS = [
    Endpoint(
        method="GET",
        path=f"{_QUEUE}/items",
        summary="List items in a state",
        handle=list_items,
        query=ItemQuery,
        answer=ItemPage,
    ),
    Endpoint(method="GET", path=_ITEM, summary="Read an item", handle=get_item, answer=ItemView),
    Endpoint(
        method="PATCH",
        path=_ITEM,
        summary="Change an item that waits",
        handle=edit_item,
        body=EditBody,
        answer=ItemView,
        example={"priority": 5},
    ),
    Endpoint(
        method="DELETE", path=_ITEM, summary="Cancel an item", handle=cancel_item, answer=ItemView
    ),
    Endpoint(
        method="POST",
        path=f"{_ITEM}/retry",
        summary="Make an item claimable now",
        handle=retry_item,
        answer=ItemView,
    ),
    Endpoint(
        method="GET",
        path=f"{_ITEM}/why",
        summary="Explain why an item does not run",
        handle=explain_item,
        answer=Why,
    ),
]
