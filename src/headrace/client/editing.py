"""Changing single items by hand, by id or by subject."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from headrace.client.looks import finding, glance
from headrace.client.plans import Plan
from headrace.client.queue_calls import item_of
from headrace.contract.items import EndedItem
from headrace.contract.queues import QueueStore
from headrace.core.documents import check_priority, payload_text
from headrace.core.times import Duration, Moment, duration_ms, moment_ms
from headrace.errors import InvalidOption
from headrace.model.items import ItemState


def cancelling(store: QueueStore, queue: str, item: int | str) -> Plan[ItemState]:
    """Remove a waiting item."""
    id = yield from finding(store, queue, item_of(item))
    cancelled: ItemState = yield store.cancel_item(queue, id)
    return cancelled


def retrying(store: QueueStore, queue: str, item: int | str) -> Plan[ItemState]:
    """Let an item run now."""
    id = yield from finding(store, queue, item_of(item))
    revived: ItemState = yield store.retry_item(queue, id)
    return revived


def editing(
    store: QueueStore,
    queue: str,
    item: int | str,
    *,
    payload: Any,
    priority: int | None,
    at: Moment | None,
    delay: Duration | None,
    max_body: int,
) -> Plan[ItemState | EndedItem]:
    """Change what an item carries and when it is due."""
    if at is not None and delay is not None:
        raise InvalidOption("give at or delay, not both.", option="at")
    content = None if payload is UNSET else payload_text(payload, max_body=max_body)
    rank = None if priority is None else check_priority(priority)
    due = None if at is None else moment_ms("at", at)
    wait = None if delay is None else duration_ms("delay", delay)
    id = yield from finding(store, queue, item_of(item))
    if wait is not None:
        due = (yield from glance(store, queue)).now + wait
    edited: ItemState | EndedItem = yield store.edit_item(queue, id, content, rank, due)
    return edited
