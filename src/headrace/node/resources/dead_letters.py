"""``/queues/{queue}/dead``: items that failed too often, and what to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from headrace.client.items import Item
from headrace.contract.items import DeadGroup
from headrace.core.dead_filters import DeadFilter
from headrace.model.times import moment_of
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.item_views import ItemPage, view
from headrace.node.resources.json_encoder import encode
from headrace.node.resources.pages import ListPage, PageQuery, long_page
from headrace.node.resources.values import Time


class DeadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead items: those that meet all conditions. ``dry_run`` only counts them."""

    ids: Sequence[int] | None = None
    fingerprint: str | None = None
    subject: str | None = None
    cause: str | None = None
    died_before: Time | None = None
    died_after: Time | None = None
    limit: int | None = None
    dry_run: bool = False


class RedriveBody(DeadBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead items that are pushed again, to another queue if ``to`` names one."""

    to: str | None = None


class DeadQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead items to list."""

    fingerprint: str | None = None
    subject: str | None = None
    cause: str | None = None


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Dead items that failed with the same error; ``example`` is the newest of them."""

    fingerprint: str
    title: str
    cause: str
    count: int
    first_at: datetime
    last_at: datetime
    example: int


async def list_dead(call: ApiCall[None, DeadQuery]) -> ListPage:
    dead, query = call.hr.queue(call["queue"]).dead, call.query

    async def read(after: int, limit: int) -> Sequence[Item]:
        return await dead.list(
            after=after,
            limit=limit,
            fingerprint=query.fingerprint,
            subject=query.subject,
            cause=query.cause,
        )

    return await long_page(
        "items",
        read,
        query.after("items", 0),
        query.checked_limit,
        lambda item: item.id,
        lambda item: encode(view(item)),
    )


async def group_dead(call: ApiCall[None, None]) -> dict[str, list[GroupView]]:
    groups = await call.hr.queue(call["queue"]).dead.groups()
    return {"groups": [_group_view(group) for group in groups]}


def _group_view(group: DeadGroup) -> GroupView:
    return GroupView(
        fingerprint=group.fingerprint,
        title=group.title,
        cause=group.cause,
        count=group.count,
        first_at=moment_of(group.first_at),
        last_at=moment_of(group.last_at),
        example=group.example,
    )


async def redrive_dead(call: ApiCall[RedriveBody, None]) -> dict[str, int]:
    dead, body = call.hr.queue(call["queue"]).dead, call.body
    if body.dry_run:
        return {"count": await dead.count(**_filter(body))}
    return {"count": await dead.redrive(to=body.to, limit=body.limit, **_filter(body))}


async def purge_dead(call: ApiCall[DeadBody, None]) -> dict[str, int]:
    dead, body = call.hr.queue(call["queue"]).dead, call.body
    if body.dry_run:
        return {"count": await dead.count(**_filter(body))}
    return {"count": await dead.purge(limit=body.limit, **_filter(body))}


def _filter(body: DeadBody) -> DeadFilter:
    chosen: Any = {name: getattr(body, name) for name in DeadFilter.__annotations__}
    filter: DeadFilter = {name: value for name, value in chosen.items() if value is not None}  # type: ignore[assignment]  # of its names
    return filter


_DEAD = "/queues/{queue}/dead"

ENDPOINTS = [
    Endpoint(
        method="GET",
        path=_DEAD,
        summary="List dead items",
        handle=list_dead,
        query=DeadQuery,
        answer=ItemPage,
    ),
    Endpoint(
        method="GET",
        path=f"{_DEAD}/groups",
        summary="Group dead items by what they failed with",
        handle=group_dead,
        answer=dict[str, list[GroupView]],
    ),
    Endpoint(
        method="POST",
        path=f"{_DEAD}/redrive",
        summary="Push dead items again",
        handle=redrive_dead,
        body=RedriveBody,
        answer=dict[str, int],
        example={"limit": 1},
    ),
    Endpoint(
        method="POST",
        path=f"{_DEAD}/purge",
        summary="Remove dead items",
        handle=purge_dead,
        body=DeadBody,
        answer=dict[str, int],
        example={"dry_run": True},
    ),
]
