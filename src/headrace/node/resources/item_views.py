"""Items in the JSON of the API."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headrace.client.items import Item
from headrace.model.failures import Failure
from headrace.model.queues.items import State
from headrace.node.resources.key_values import described


class ItemView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An item. A payload of bytes is in ``payload_base64``, every other one in ``payload``."""

    id: int
    queue: str
    state: str
    attempts: int
    priority: int
    created_at: datetime
    due_at: datetime
    payload: Any = UNSET
    payload_base64: str | UnsetType = UNSET
    subject: str | None = None
    channel: Mapping[str, Any] | None = None
    headers: dict[str, str] = {}
    token: str | None = None
    lease_until: datetime | None = None
    worker: str | None = None
    last_error: Failure | None = None
    ended_at: datetime | None = None
    cause: str | None = None
    fingerprint: str | None = None


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some items of a queue, by id."""

    items: list[ItemView]
    next: str | None


_WORDS = {state: str(state) for state in State}


def view(item: Item) -> ItemView:
    """An item as the API shows it."""
    payload = item.payload
    is_binary = isinstance(payload, bytes)
    return ItemView(
        id=item.id,
        queue=item.queue,
        state=_WORDS[item.state],
        attempts=item.attempts,
        priority=item.priority,
        created_at=item.created_at,
        due_at=item.due_at,
        payload=UNSET if is_binary else payload,
        payload_base64=base64.b64encode(payload).decode() if is_binary else UNSET,
        subject=item.subject,
        channel=None if item.channel is None else described(item.channel),
        headers=item.headers,
        token=item.token,
        lease_until=item.deadline,
        worker=item.worker,
        last_error=item.last_error,
        ended_at=item.ended_at,
        cause=item.cause,
        fingerprint=item.fingerprint,
    )
