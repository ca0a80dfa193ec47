"""``headrace dead``: look at dead items of a queue, run them again, move or remove them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.asking import YesOption
from headrace.cli.bulk import Bulk, carry_out
from headrace.cli.command import Session, command
from headrace.cli.dead_filters import filtered
from headrace.cli.items import BySubject, ItemName, described, item_named, print_dead, print_item
from headrace.cli.references import QueueName, is_there, reference
from headrace.client.dead_letters import DeadLetters
from headrace.client.items import Item
from headrace.core.dead_filters import DeadFilter
from headrace.errors import InvalidOption

PAGE = 1000

app = typer.Typer(
    help="Look at dead items of a queue, run them again, move or remove them.",
    no_args_is_help=True,
)

Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many, by id.")]
Rate = Annotated[
    float | None, typer.Option(metavar="N", help="At most so many a second; otherwise all at once.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


@command(app)
@filtered
def ls(
    session: Session,
    queue: QueueName,
    *,
    filter: DeadFilter,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
) -> None:
    """List dead items by id."""
    with session.open() as hr:
        found = _dead(reference(session, hr, queue).dead, filter, limit)
        if session.is_json:
            for item in found:
                output.json_line(described(item))
            return
        items = list(found)
    print_dead(items)
    if not items:
        output.note(f"queue {queue!r} has no {'matching ' if filter else ''}dead items")


@command(app)
def groups(session: Session, queue: QueueName) -> None:
    """List dead items by what they died of, the largest group first."""
    with session.open() as hr:
        found = reference(session, hr, queue).dead.groups()
    if session.is_json:
        output.document(found)
        return
    output.table(
        ["FINGERPRINT", "COUNT", "CAUSE", "FIRST", "LAST", "EXAMPLE", "ERROR"],
        [
            [
                group.fingerprint,
                group.count,
                group.cause,
                output.moment(group.first_at),
                output.moment(group.last_at),
                group.example,
                group.title,
            ]
            for group in found
        ],
    )
    if not found:
        output.note(f"queue {queue!r} has no dead items")


@command(app)
def show(
    session: Session, queue: QueueName, item: ItemName, *, by_subject: BySubject = False
) -> None:
    """Tell all that is known of a dead item."""
    wanted = item_named(item, by_subject=by_subject)
    with session.open() as hr:
        print_item(reference(session, hr, queue).dead.show(wanted), is_json=session.is_json)


@command(app)
@filtered
def redrive(
    session: Session,
    queue: QueueName,
    *,
    filter: DeadFilter,
    rate: Rate = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: YesOption = False,
) -> None:
    """Let dead items run again, with all their attempts before them."""
    bulk = Bulk("redrive", queue, "run again", "redriven", filter, limit, rate)
    with session.open() as hr:
        letters = reference(session, hr, queue).dead
        carry_out(
            session,
            bulk,
            letters,
            lambda step: letters.redrive(rate=rate, limit=limit, progress=step, **filter),
            is_agreed=yes,
            is_dry=dry_run,
        )


@command(app)
@filtered
def purge(
    session: Session,
    queue: QueueName,
    *,
    filter: DeadFilter,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: YesOption = False,
) -> None:
    """Remove dead items for good."""
    bulk = Bulk("purge", queue, "be removed for good", "removed", filter, limit)
    with session.open() as hr:
        letters = reference(session, hr, queue).dead
        carry_out(
            session,
            bulk,
            letters,
            lambda step: letters.purge(limit=limit, progress=step, **filter),
            is_agreed=yes,
            is_dry=dry_run,
        )


@command(app)
@filtered
def move(
    session: Session,
    queue: QueueName,
    to: Annotated[str, typer.Argument(metavar="TO", help="The queue that gets them.")],
    *,
    filter: DeadFilter,
    rate: Rate = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: YesOption = False,
) -> None:
    """Move dead items to another queue, where they wait to be claimed."""
    if to == queue:
        raise InvalidOption(f"they are in queue {to!r} already: use redrive.", option="to")
    with session.open() as hr:
        new = "" if is_there(hr, to) else ", which is made for it"
        bulk = Bulk(
            name="move",
            queue=queue,
            will=f"move to queue {to!r}{new}",
            done=f"moved to queue {to!r}",
            filter=filter,
            limit=limit,
            rate=rate,
        )
        letters = reference(session, hr, queue).dead
        carry_out(
            session,
            bulk,
            letters,
            # The same as move, which knows no rate.
            lambda step: letters.redrive(to=to, rate=rate, limit=limit, progress=step, **filter),
            is_agreed=yes,
            is_dry=dry_run,
        )


def _dead(letters: DeadLetters, filter: DeadFilter, limit: int) -> Iterator[Item]:
    after = 0
    while limit and (some := letters.list(after=after, limit=min(PAGE, limit), **filter)):
        yield from some
        limit -= len(some)
        after = some[-1].id
