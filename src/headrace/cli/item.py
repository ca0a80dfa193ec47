"""``headrace item``: show single items of a queue, and change them by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import typer
from msgspec import UNSET

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.item_views import (
    BySubject,
    ItemName,
    parse_item,
    print_all,
    print_item,
    print_items,
)
from headrace.cli.pages import all_pages
from headrace.cli.parse_body import parse_json
from headrace.cli.parse_time import parse_delay, parse_moment
from headrace.cli.queue_lookup import QueueName
from headrace.client._sync.queue import Queue
from headrace.client.items import Item
from headrace.errors import InvalidOption

LIVE_STATES = ("active", "pending", "planned")

StateName = Literal["planned", "pending", "active", "completed", "dead"]

app = group("Show items of a queue, and change them by hand.")


@command(app)
def ls(
    session: CommandSession,
    queue: QueueName,
    *,
    state: Annotated[
        StateName | None, typer.Option(help="Only items in this state; default: all live items.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most N items.")] = 100,
) -> None:
    """List items by id: items in flight first, then waiting items."""
    states = (state,) if state else LIVE_STATES
    with session.open() as hr:
        print_all(
            _items(hr.queue(queue), states, limit),
            print_items,
            is_json=session.is_json,
            empty=f"queue {queue!r} has no {state or 'live'} items",
        )


@command(app)
def show(
    session: CommandSession, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Show an item, with the traceback of its last error."""
    id_or_subject = parse_item(item, by_subject=by_subject)
    with session.open() as hr:
        shown = hr.queue(queue).item(id_or_subject)
    print_item(shown, is_json=session.is_json)


@command(app)
def why(
    session: CommandSession, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Explain why an item is not running, or how it ended."""
    id_or_subject = parse_item(item, by_subject=by_subject)
    with session.open() as hr:
        explanation = hr.queue(queue).why(id_or_subject)
    if session.is_json:
        output.json_document(explanation)
    else:
        output.line(str(explanation))


@command(app)
def cancel(
    session: CommandSession, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Remove a waiting or ended item, and print it."""
    id_or_subject = parse_item(item, by_subject=by_subject)
    with session.open() as hr:
        removed = hr.queue(queue).cancel(id_or_subject)
    output.note(f"item {removed.id} of queue {queue!r} is removed")
    print_item(removed, is_json=session.is_json)


@command(app)
def retry(
    session: CommandSession, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Make a waiting or ended item due now, with a new set of attempts."""
    id_or_subject = parse_item(item, by_subject=by_subject)
    with session.open() as hr:
        print_item(hr.queue(queue).retry(id_or_subject), is_json=session.is_json)


@command(app)
def edit(
    session: CommandSession,
    queue: QueueName,
    item: ItemName,
    *,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="The new payload.")] = None,
    priority: Annotated[int | None, typer.Option(help="The new priority.")] = None,
    at: Annotated[str | None, typer.Option(help="The time when it is due.")] = None,
    delay: Annotated[
        str | None, typer.Option(help="Due after this delay: seconds, or a duration like 5m.")
    ] = None,
    by_subject: BySubject = False,
) -> None:
    """Change a waiting or ended item; fields that are not given stay."""
    id_or_subject = parse_item(item, by_subject=by_subject)
    if payload is None and priority is None and at is None and delay is None:
        raise InvalidOption(
            "name a change: --payload, --priority, --at or --delay.", option="payload"
        )
    content = UNSET if payload is None else parse_json(payload, "--payload")
    due = parse_moment("at", at)
    with session.open() as hr:
        changed = hr.queue(queue).edit(
            id_or_subject, payload=content, priority=priority, at=due, delay=parse_delay(delay)
        )
    print_item(changed, is_json=session.is_json)


def _items(queue: Queue, states: tuple[str, ...], limit: int) -> Iterator[Item]:
    """Items of each state in turn, up to ``limit`` in total."""
    for state in states:
        pages = all_pages(
            lambda after, limit, state=state: queue.items(state, after=after, limit=limit),  # type: ignore[misc]  # bound in a loop
            cursor="id",
            after=0,
            limit=limit,
        )
        for item in pages:
            limit -= 1
            yield item
