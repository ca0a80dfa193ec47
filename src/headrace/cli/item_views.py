"""How items are named on the command line, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.client.items import Item
from headrace.core.requests.items import LAST_ID
from headrace.errors import InvalidOption
from headrace.model.failures import Failure

ItemName = Annotated[
    str, typer.Argument(metavar="ID_OR_SUBJECT", help="The item's id, or its subject.")
]
BySubject = Annotated[
    bool,
    typer.Option("--by-subject", help="Treat the argument as a subject, even if it is a number."),
]


def parse_item(text: str, *, by_subject: bool) -> int | str:
    """An id if the text is a number, otherwise a subject."""
    if by_subject or not (text.isascii() and text.isdecimal()):
        return text
    if int(text) > LAST_ID:
        raise InvalidOption(
            f"{text} is too large for an id: use --by-subject if it is a subject.", option="item"
        )
    return int(text)


def item_to_dict(item: Item) -> dict[str, Any]:
    """An item for JSON output; bytes are base64."""
    return {
        "id": item.id,
        "queue": item.queue,
        "state": item.state.name.lower(),
        "subject": item.subject,
        "priority": item.priority,
        "attempts": item.attempts,
        "crashes": item.crashes,
        "times_settled": item.times_settled,
        "created_at": item.created_at,
        "due_at": item.due_at,
        "last_settled_at": item.last_settled_at,
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
    """Print an item; the traceback of its last error comes last."""
    fields = item_to_dict(item)
    if is_json:
        output.json_document(fields)
        return
    error: Failure | None = fields["last_error"]
    fields["last_error"] = error and format_error(error)
    fields["headers"] = output.format_json(item.headers) if item.headers else None
    fields["payload"] = output.format_json(item.payload)
    del fields["is_bytes"]
    output.fields(list(fields.items()))
    for line in error.traceback.splitlines() if error else ():
        output.line(f"  {line}")


def print_all(
    items: Iterable[Item],
    print_table: Callable[[Sequence[Item]], None],
    *,
    is_json: bool,
    empty: str,
) -> None:
    """Print items as JSON lines while they are read, or as a table; ``empty`` is a note for none."""
    if is_json:
        for item in items:
            output.json_line(item_to_dict(item))
        return
    rows = list(items)
    print_table(rows)
    if not rows:
        output.note(empty)


def print_items(items: Sequence[Item]) -> None:
    """Print items, one per line."""
    output.table(
        ["ID", "STATE", "SUBJECT", "PRIORITY", "DUE", "ATTEMPTS", "WORKER", "PAYLOAD"],
        [
            [
                item.id,
                item.state.name.lower(),
                item.subject,
                item.priority,
                item.due_at,
                item.attempts,
                item.worker,
                output.format_json(item.payload),
            ]
            for item in items
        ],
    )


def print_dead_items(items: Sequence[Item]) -> None:
    """Print dead items, one per line."""
    output.table(
        ["ID", "SUBJECT", "DIED", "CAUSE", "ATTEMPTS", "FINGERPRINT", "ERROR", "PAYLOAD"],
        [
            [
                item.id,
                item.subject,
                item.ended_at,
                item.cause,
                item.attempts,
                item.fingerprint,
                item.last_error and format_error(item.last_error),
                output.format_json(item.payload),
            ]
            for item in items
        ],
    )


def format_error(error: Failure) -> str:
    """An error on one line."""
    line = error.message.strip().partition("\n")[0]
    return f"{error.type}: {line}" if line else error.type
