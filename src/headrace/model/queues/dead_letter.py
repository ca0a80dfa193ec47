"""Copies of an item for other places: dead-letter queues, topics, reports."""

from __future__ import annotations

import msgspec

from headrace.model.failures import Failure
from headrace.model.queues.fingerprint import digest_of
from headrace.model.queues.items import JSON, Document, Ended, ItemState
from headrace.model.queues.settings import QueueSettings

PREFIX = "headrace-dead-"


def subject_in(item: ItemState, settings: QueueSettings) -> str | None:
    """The subject of a dead item in another queue."""
    return digest_of(item.payload, item.format) if settings.unique_content else item.subject


def dead_copy(ended: Ended, settings: QueueSettings, *, is_subject_free: bool) -> Document | None:
    """A dead item for another queue, with headers that name its origin.

    If a live item has its subject, the copy has none: it must not be lost. None if the other
    queue has ``unique_content`` and an item with the same content.
    """
    if settings.unique_content and not is_subject_free:
        return None
    item = ended.item
    origin = {
        "queue": item.queue,
        "id": str(item.id),
        "cause": ended.cause,
        "attempts": str(item.attempts),
    }
    failure = failure_in(item)
    if failure is not None:
        origin["error"] = f"{failure.type}: {failure.message}"
    headers = msgspec.json.decode(item.headers) if item.headers is not None else {}
    headers |= {PREFIX + name: value for name, value in origin.items()}
    return Document(
        payload=item.payload,
        format=item.format,
        subject=subject_in(item, settings) if is_subject_free else None,
        priority=item.priority,
        headers=msgspec.json.encode(headers).decode(),
        overrides=item.overrides,
        key_values=item.key_values,
    )


def redriven(item: ItemState, settings: QueueSettings) -> Document:
    """An item's content for a push to another queue, due now."""
    return Document(
        payload=item.payload,
        format=item.format,
        subject=subject_in(item, settings),
        priority=item.priority,
        headers=item.headers,
        overrides=item.overrides,
        key_values=item.key_values,
    )


def failure_in(item: ItemState) -> Failure | None:
    """The last error of an item."""
    return None if item.error is None else msgspec.json.decode(item.error, type=Failure)


def fingerprint_and_title(ended: Ended) -> tuple[str, str]:
    """The fingerprint and the title of a dead item; without an error they come from its cause."""
    failure = failure_in(ended.item) or Failure(type=ended.cause)
    return failure.fingerprint, failure.title


def superseded(item: ItemState, replaced: ItemState | Document, now: int) -> str:
    """The record for the topic ``keep_superseded``: content of an item that an upsert replaced.

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
