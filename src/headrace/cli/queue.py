"""``headrace queue``: looking at queues; ``queue_changes`` has the other commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from headrace.api import Headrace
from headrace.cli import output, queue_changes, queue_views
from headrace.cli.command import Session, command
from headrace.cli.items import error_text
from headrace.cli.references import QueueName, reference
from headrace.client.queue_calls import LAST_ID
from headrace.contract.items import LoggedError
from headrace.errors import InvalidOption
from headrace.model.queues import QueueInfo

PAGE = 1000

app = typer.Typer(help="Look at queues, make, change, pause and remove them.", no_args_is_help=True)

OptionalName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The queue's name.", show_default=False)
]


@command(app)
def ls(
    session: Session,
    *,
    prefix: Annotated[str, typer.Option(help="Only names that begin so.")] = "",
) -> None:
    """List queues."""
    with session.open() as hr:
        found = list(_all_queues(hr, prefix))
        numbers = {stats.queue: stats for stats in hr.stats()} if found else {}
    # One that is missing was made or dropped between the two looks.
    rows = [(info, numbers[info.name]) for info in found if info.name in numbers]
    if session.is_json:
        output.document([{**msgspec.structs.asdict(info), "stats": stats} for info, stats in rows])
        return
    queue_views.print_list(rows)
    if not rows:
        output.note("there are no queues" + (f" that begin with {prefix!r}" if prefix else ""))


@command(app)
def show(
    session: Session,
    name: OptionalName = None,
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The settings that new queues get.")
    ] = False,
) -> None:
    """Tell all that is known of a queue: backlog, workers, settings."""
    if (name is None) != defaults:
        raise InvalidOption("give the NAME of a queue, or --defaults.", option="defaults")
    with session.open() as hr:
        if name is None:
            queue_views.print_settings(hr.queue_defaults(), is_json=session.is_json)
            return
        [report] = hr.info(name)
    if session.is_json:
        output.document(report)
    else:
        queue_views.print_report(report)


@command(app)
def stats(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One queue; otherwise all.")
    ] = None,
    *,
    compute: Annotated[
        bool, typer.Option("--compute", help="Count now, in place of the running numbers.")
    ] = False,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Count now, and set the running numbers right.")
    ] = False,
) -> None:
    """Tell how many items are in each state, and what happened so far."""
    with session.open() as hr:
        if consolidate:
            found = hr.consolidate_stats(name)
        else:
            found = hr.compute_stats(name) if compute else hr.stats(name)
    if session.is_json:
        output.document(found if name is None else found[0])
    elif name is None:
        queue_views.print_stats(found)
        if not found:
            output.note("there are no queues")
    else:
        output.fields(list(msgspec.structs.asdict(found[0]).items()))


@command(app)
def errors(
    session: Session,
    queue: QueueName,
    *,
    item: Annotated[
        int | None, typer.Option(metavar="ID", min=0, max=LAST_ID, help="Only those of this item.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=LAST_ID, help="How many of the newest.")
    ] = 20,
) -> None:
    """Print what went wrong, newest first."""
    with session.open() as hr:
        found = reference(session, hr, queue).errors(item=item, limit=limit)
    _print_errors(session, found)
    if not found:
        whose = "" if item is None else f" of item {item}"
        output.note(f"queue {queue!r} has no errors{whose} on record")


queue_changes.register(app)


def _print_errors(session: Session, found: list[LoggedError]) -> None:
    if session.is_json:
        for error in found:
            output.json_line(error)
        return
    output.table(
        ["TIME", "ITEM", "SUBJECT", "ATTEMPT", "WORKER", "ERROR"],
        [
            [
                output.moment(error.at),
                error.item,
                error.subject,
                error.attempt,
                error.worker,
                error_text(error.failure),
            ]
            for error in found
        ],
    )


def _all_queues(hr: Headrace, prefix: str) -> Iterator[QueueInfo]:
    after = ""
    while some := hr.queues(prefix=prefix, after=after, limit=PAGE):
        yield from some
        after = some[-1].name
