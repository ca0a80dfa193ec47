"""``headrace item``: look at single items of a queue, and change them by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import typer
from msgspec import UNSET

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.cli.commits import parsed
from headrace.cli.items import (
    BySubject,
    ItemName,
    described,
    item_named,
    print_item,
    print_items,
)
from headrace.cli.references import QueueName, reference
from headrace.cli.times import moment, wait
from headrace.client.items import Item
from headrace.client.queues import Queue
from headrace.errors import InvalidOption

PAGE = 1000
LIVE = ("active", "pending", "planned")

StateName = Literal["planned", "pending", "active", "completed", "dead"]

app = typer.Typer(help="Look at items of a queue, and change them by hand.", no_args_is_help=True)


@command(app)
def ls(
    session: Session,
    queue: QueueName,
    *,
    state: Annotated[
        StateName | None, typer.Option(help="Only items in this state; otherwise all live ones.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
) -> None:
    """List items by id: those in flight first, then those that wait."""
    with session.open() as hr:
        found = _items(reference(session, hr, queue), (state,) if state else LIVE, limit)
        if session.is_json:
            for item in found:
                output.json_line(described(item))
            return
        items = list(found)
    print_items(items)
    if not items:
        output.note(f"queue {queue!r} has no {state or 'live'} items")


@command(app)
def show(
    session: Session, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Tell all that is known of an item."""
    wanted = item_named(item, by_subject=by_subject)
    with session.open() as hr:
        found = reference(session, hr, queue).item(wanted)
    print_item(found, is_json=session.is_json)


@command(app)
def why(
    session: Session, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Tell why an item is not running, or what became of it."""
    wanted = item_named(item, by_subject=by_subject)
    with session.open() as hr:
        found = reference(session, hr, queue).why(wanted)
    if session.is_json:
        output.document(found)
    else:
        output.line(str(found))


@command(app)
def cancel(
    session: Session, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Remove a waiting item; prints it as it was."""
    wanted = item_named(item, by_subject=by_subject)
    with session.open() as hr:
        gone = reference(session, hr, queue).cancel(wanted)
    output.note(f"item {gone.id} of queue {queue!r} is removed")
    print_item(gone, is_json=session.is_json)


@command(app)
def retry(
    session: Session, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Let a waiting or ended item run now, with all its attempts before it."""
    wanted = item_named(item, by_subject=by_subject)
    with session.open() as hr:
        print_item(reference(session, hr, queue).retry(wanted), is_json=session.is_json)


@command(app)
def edit(
    session: Session,
    queue: QueueName,
    item: ItemName,
    *,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="Another payload.")] = None,
    priority: Annotated[int | None, typer.Option(help="Another priority.")] = None,
    at: Annotated[str | None, typer.Option(help="When it is due: a time.")] = None,
    delay: Annotated[
        str | None, typer.Option(help="When it is due: seconds from now, or words like 5m.")
    ] = None,
    by_subject: BySubject = False,
) -> None:
    """Change a waiting or ended item; what is not given stays."""
    wanted = item_named(item, by_subject=by_subject)
    if payload is None and priority is None and at is None and delay is None:
        raise InvalidOption(
            "say what is to change: --payload, --priority, --at or --delay.", option="payload"
        )
    content = UNSET if payload is None else parsed(payload, "--payload")
    due = moment("at", at)
    with session.open() as hr:
        changed = reference(session, hr, queue).edit(
            wanted, payload=content, priority=priority, at=due, delay=wait(delay)
        )
    print_item(changed, is_json=session.is_json)


def _items(queue: Queue, states: tuple[str, ...], limit: int) -> Iterator[Item]:
    for state in states:
        after = 0
        while limit and (some := queue.items(state, after=after, limit=min(PAGE, limit))):
            yield from some
            limit -= len(some)
            after = some[-1].id
