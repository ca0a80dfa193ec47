"""What is told of an item elsewhere: to other queues, to topics, to people."""

from __future__ import annotations

import msgspec

from headrace.model.failures import Failure
from headrace.model.items import JSON, Document, Ended, ItemState

PREFIX = "headrace-dead-"


def dead_copy(ended: Ended, *, is_subject_free: bool) -> Document:
    """A dead item for another queue, with headers that say where it comes from.

    It goes without its subject where a live item has that already: it must not be lost.
    """
    item = ended.item
    told = {
        "queue": item.queue,
        "id": str(item.id),
        "cause": ended.cause,
        "attempts": str(item.attempts),
    }
    failure = failure_in(item)
    if failure is not None:
        told["error"] = f"{failure.type}: {failure.message}"
    headers = msgspec.json.decode(item.headers) if item.headers is not None else {}
    headers |= {PREFIX + name: value for name, value in told.items()}
    return Document(
        payload=item.payload,
        format=item.format,
        subject=item.subject if is_subject_free else None,
        priority=item.priority,
        headers=msgspec.json.encode(headers).decode(),
        overrides=item.overrides,
        key_values=item.key_values,
    )


def again(item: ItemState) -> Document:
    """An item's content, to be pushed to another queue and run now."""
    return Document(
        payload=item.payload,
        format=item.format,
        subject=item.subject,
        priority=item.priority,
        headers=item.headers,
        overrides=item.overrides,
        key_values=item.key_values,
    )


def failure_in(item: ItemState) -> Failure | None:
    """The last error of an item."""
    return None if item.error is None else msgspec.json.decode(item.error, type=Failure)


def likeness(ended: Ended) -> tuple[str, str]:
    """The fingerprint and the title of a dead item; without an error its cause stands for it."""
    failure = failure_in(ended.item) or Failure(type=ended.cause)
    return failure.fingerprint, failure.title


def superseded(item: ItemState, replaced: ItemState | Document, now: int) -> str:
    """What a topic gets of an item's content that gave way to newer content.

    ``replaced`` is the item itself, or its successor.
    """
    is_json = replaced.format == JSON
    return msgspec.json.encode(
        {
            "queue": item.queue,
            "id": item.id,
            "subject": item.subject,
            "payload": msgspec.Raw(replaced.payload.encode()) if is_json else replaced.payload,
            "superseded_at": now,
        }
    ).decode()
