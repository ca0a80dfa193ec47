"""Items: how they are named on the command line, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.client.items import Item
from headrace.client.queue_calls import LAST_ID
from headrace.errors import InvalidOption
from headrace.model.failures import Failure

ItemName = Annotated[
    str, typer.Argument(metavar="ID_OR_SUBJECT", help="The item's id, or its subject.")
]
BySubject = Annotated[
    bool, typer.Option("--by-subject", help="It is a subject, although it looks like an id.")
]


def item_named(text: str, *, by_subject: bool) -> int | str:
    """An id if it looks like one, else a subject."""
    if by_subject or not (text.isascii() and text.isdecimal()):
        return text
    if int(text) > LAST_ID:
        raise InvalidOption(
            f"{text} is too large for an id: say --by-subject if it is a subject.", option="item"
        )
    return int(text)


def described(item: Item) -> dict[str, Any]:
    """An item for programs. Bytes are base64."""
    return {
        "id": item.id,
        "queue": item.queue,
        "state": item.state.name.lower(),
        "subject": item.subject,
        "priority": item.priority,
        "attempts": item.attempts,
        "crashes": item.crashes,
        "iterations": item.iterations,
        "created_at": item.created_at,
        "next_execution": item.next_execution,
        "last_iteration": item.last_iteration,
        "claimed_at": item.claimed_at,
        "deadline": item.deadline,
        "worker": item.worker,
        "ended_at": item.ended_at,
        "cause": item.cause,
        "fingerprint": item.fingerprint,
        "title": item.title,
        "last_error": item.last_error,
        "headers": item.headers,
        "payload": item.payload,
        "is_bytes": isinstance(item.payload, bytes),
    }


def print_item(item: Item, *, is_json: bool) -> None:
    """All of an item; the traceback of its last error comes last."""
    found = described(item)
    if is_json:
        output.document(found)
        return
    error: Failure | None = found["last_error"]
    found["last_error"] = error and error_text(error)
    found["headers"] = output.compact(item.headers) if item.headers else None
    found["payload"] = output.compact(item.payload)
    del found["is_bytes"]
    output.fields(list(found.items()))
    for line in error.traceback.splitlines() if error else ():
        output.line(f"  {line}")


def print_items(items: Sequence[Item]) -> None:
    """Items, one on a line."""
    output.table(
        ["ID", "STATE", "SUBJECT", "PRIORITY", "DUE", "ATTEMPTS", "WORKER", "PAYLOAD"],
        [
            [
                item.id,
                item.state.name.lower(),
                item.subject,
                item.priority,
                item.next_execution,
                item.attempts,
                item.worker,
                output.shortened(item.payload),
            ]
            for item in items
        ],
    )


def print_dead(items: Sequence[Item]) -> None:
    """Dead items, one on a line."""
    output.table(
        ["ID", "SUBJECT", "DIED", "CAUSE", "ATTEMPTS", "FINGERPRINT", "PAYLOAD", "ERROR"],
        [
            [
                item.id,
                item.subject,
                item.ended_at,
                item.cause,
                item.attempts,
                item.fingerprint,
                output.shortened(item.payload),
                item.last_error and error_text(item.last_error),
            ]
            for item in items
        ],
    )


def error_text(error: Failure) -> str:
    """An error on one line."""
    line = error.message.strip().partition("\n")[0]
    return f"{error.type}: {line}" if line else error.type
