"""``headrace dead``: list the dead items of a queue, redrive, move or remove them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.bulk import BulkAction, run_bulk
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import queue_names
from headrace.cli.dead_filters import filtered
from headrace.cli.item_views import (
    BySubject,
    ItemName,
    parse_item,
    print_all,
    print_dead_items,
    print_item,
)
from headrace.cli.pages import all_pages
from headrace.cli.prompts import YesOption
from headrace.cli.queue_lookup import QueueName, queue_exists
from headrace.client._sync.dead_letters import DeadLetters
from headrace.client.items import Item
from headrace.core.dead_filters import DeadFilter
from headrace.errors import InvalidOption

app = group("List the dead items of a queue, redrive, move or remove them.")

Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most N items, by id.")]
Rate = Annotated[
    float | None, typer.Option(metavar="N", help="At most N items per second; default: no limit.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]


@command(app)
@filtered
def ls(
    session: CommandSession,
    queue: QueueName,
    *,
    filter: DeadFilter,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most N items.")] = 100,
) -> None:
    """List dead items by id."""
    with session.open() as hr:
        print_all(
            _dead_items(hr.queue(queue).dead, filter, limit),
            print_dead_items,
            is_json=session.is_json,
            empty=f"queue {queue!r} has no {'matching ' if filter else ''}dead items",
        )


@command(app)
def groups(session: CommandSession, queue: QueueName) -> None:
    """List groups of dead items with the same error, the largest group first."""
    with session.open() as hr:
        groups = hr.queue(queue).dead.groups()
    if session.is_json:
        output.json_document(groups)
        return
    output.table(
        ["FINGERPRINT", "COUNT", "CAUSE", "FIRST", "LAST", "EXAMPLE", "ERROR"],
        [
            [
                group.fingerprint,
                group.count,
                group.cause,
                output.format_time(group.first_at),
                output.format_time(group.last_at),
                group.example,
                group.title,
            ]
            for group in groups
        ],
    )
    if not groups:
        output.note(f"queue {queue!r} has no dead items")


@command(app)
def show(
    session: CommandSession, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Show a dead item."""
    wanted = parse_item(item, by_subject=by_subject)
    with session.open() as hr:
        print_item(hr.queue(queue).dead.get(wanted), is_json=session.is_json)


@command(app)
@filtered
def redrive(
    session: CommandSession,
    queue: QueueName,
    *,
    filter: DeadFilter,
    rate: Rate = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: YesOption = False,
) -> None:
    """Make dead items run again, with a new set of attempts."""
    action = BulkAction("redrive", queue, "run again", "redriven", filter, limit, rate)
    with session.open() as hr:
        letters = hr.queue(queue).dead
        run_bulk(
            session,
            action,
            letters,
            lambda step: letters.redrive(rate=rate, limit=limit, progress=step, **filter),
            is_confirmed=yes,
            is_dry=dry_run,
        )


@command(app)
@filtered
def purge(
    session: CommandSession,
    queue: QueueName,
    *,
    filter: DeadFilter,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: YesOption = False,
) -> None:
    """Remove dead items permanently."""
    action = BulkAction("purge", queue, "be removed permanently", "removed", filter, limit)
    with session.open() as hr:
        letters = hr.queue(queue).dead
        run_bulk(
            session,
            action,
            letters,
            lambda step: letters.purge(limit=limit, progress=step, **filter),
            is_confirmed=yes,
            is_dry=dry_run,
        )


@command(app)
@filtered
def move(
    session: CommandSession,
    queue: QueueName,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO", help="The queue that receives them.", autocompletion=queue_names
        ),
    ],
    *,
    filter: DeadFilter,
    rate: Rate = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: YesOption = False,
) -> None:
    """Move dead items to another queue, where they wait to be claimed."""
    if to == queue:
        raise InvalidOption(f"the items are in queue {to!r} already: use redrive.", option="to")
    with session.open() as hr:
        new = "" if queue_exists(hr, to) else ", which will be created"
        action = BulkAction(
            name="move",
            queue=queue,
            future=f"move to queue {to!r}{new}",
            past=f"moved to queue {to!r}",
            filter=filter,
            limit=limit,
            rate=rate,
        )
        letters = hr.queue(queue).dead
        run_bulk(
            session,
            action,
            letters,
            # redrive() to another queue is move() with a rate.
            lambda step: letters.redrive(to=to, rate=rate, limit=limit, progress=step, **filter),
            is_confirmed=yes,
            is_dry=dry_run,
        )


def _dead_items(letters: DeadLetters, filter: DeadFilter, limit: int) -> Iterator[Item]:
    return all_pages(
        lambda after, limit: letters.list(after=after, limit=limit, **filter),
        cursor="id",
        after=0,
        limit=limit,
    )
