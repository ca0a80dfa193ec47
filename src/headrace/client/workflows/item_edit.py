"""Changing single items by hand, by id or by subject."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from headrace.client.workflows import Plan
from headrace.client.workflows.inspection import find_item, probe
from headrace.contract.items import FinishedItem
from headrace.contract.store import Session
from headrace.core.documents import check_priority, payload_text
from headrace.core.requests.items import item_of
from headrace.errors import InvalidOption
from headrace.model.queues.items import ItemState
from headrace.model.times import Duration, Moment, delay_ms, moment_ms


def cancel_item(store: Session, queue: str, item: int | str) -> Plan[ItemState | FinishedItem]:
    """Remove a waiting or ended item."""
    id = yield from find_item(store, queue, item_of(item))
    cancelled: ItemState | FinishedItem = yield store.queues.cancel_item(queue, id)
    return cancelled


def retry_item(store: Session, queue: str, item: int | str) -> Plan[ItemState]:
    """Let an item run now."""
    id = yield from find_item(store, queue, item_of(item))
    revived: ItemState = yield store.queues.retry_item(queue, id)
    return revived


def edit_item(
    store: Session,
    queue: str,
    item: int | str,
    *,
    payload: Any,
    priority: int | None,
    at: Moment | None,
    delay: Duration | None,
    max_body: int,
) -> Plan[ItemState | FinishedItem]:
    """Change what an item carries and when it is due."""
    if at is not None and delay is not None:
        raise InvalidOption("give at or delay, not both.", option="at")
    content = None if payload is UNSET else payload_text(payload, max_body=max_body)
    rank = None if priority is None else check_priority(priority)
    due = None if at is None else moment_ms("at", at)
    wait = None if delay is None else delay_ms("delay", delay)
    id = yield from find_item(store, queue, item_of(item))
    if wait is not None:
        due = (yield from probe(store, queue)).now + wait
    edited: ItemState | FinishedItem = yield store.queues.edit_item(queue, id, content, rank, due)
    return edited
