"""``headrace queue``: list and show queues; ``queue_changes`` has the other commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from headrace._sync.headrace import Headrace
from headrace.cli import output, queue_changes, queue_views
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import queue_names
from headrace.cli.item_views import format_error
from headrace.cli.pages import all_pages
from headrace.cli.queue_lookup import QueueName
from headrace.contract.items import LoggedError
from headrace.core.requests.items import LAST_ID
from headrace.errors import InvalidOption
from headrace.model.queues.settings import QueueInfo

app = group("List, create, change, pause and remove queues.")

OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The queue's name.", autocompletion=queue_names),
]


@command(app)
def ls(
    session: CommandSession,
    *,
    prefix: Annotated[str, typer.Option(help="Only names with this prefix.")] = "",
) -> None:
    """List queues."""
    with session.open() as hr:
        queues = list(_all_queues(hr, prefix))
        stats_by_queue = {stats.queue: stats for stats in hr.queues.stats()} if queues else {}
    # A queue without stats was created or dropped between the two reads.
    rows = [(info, stats_by_queue[info.name]) for info in queues if info.name in stats_by_queue]
    if session.is_json:
        output.json_document(
            [{**msgspec.structs.asdict(info), "stats": stats} for info, stats in rows]
        )
        return
    queue_views.print_list(rows)
    if not rows:
        output.note("there are no queues" + (f" that begin with {prefix!r}" if prefix else ""))


@command(app)
def show(
    session: CommandSession,
    name: OptionalName = None,
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The settings that new queues get.")
    ] = False,
) -> None:
    """Show a queue: backlog, workers, settings."""
    if (name is None) != defaults:
        raise InvalidOption("give the NAME of a queue, or --defaults.", option="defaults")
    with session.open() as hr:
        if name is None:
            queue_views.print_settings(hr.queues.defaults(), is_json=session.is_json)
            return
        [report] = hr.queues.info(name)
    if session.is_json:
        output.json_document(report)
    else:
        queue_views.print_report(report)


@command(app)
def stats(
    session: CommandSession,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="One queue; default: all.", autocompletion=queue_names),
    ] = None,
    *,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count now instead of using the running counts.")
    ] = False,
    store: Annotated[
        bool, typer.Option("--store", help="Count now, and correct the running counts.")
    ] = False,
) -> None:
    """Show how many items are in each state, and the totals so far."""
    with session.open() as hr:
        rows = hr.queues.stats(name, exact=exact, store=store)
    if session.is_json:
        output.json_document(rows if name is None else rows[0])
    elif name is None:
        queue_views.print_stats(rows)
        if not rows:
            output.note("there are no queues")
    else:
        output.fields(list(msgspec.structs.asdict(rows[0]).items()))


@command(app)
def errors(
    session: CommandSession,
    queue: QueueName,
    *,
    item: Annotated[
        int | None, typer.Option(metavar="ID", min=0, max=LAST_ID, help="Only errors of this item.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=LAST_ID, help="At most N errors.")
    ] = 20,
) -> None:
    """List errors of items, newest first."""
    with session.open() as hr:
        logged = hr.queue(queue).errors(item=item, limit=limit)
    _print_errors(session, logged)
    if not logged:
        of_item = "" if item is None else f" of item {item}"
        output.note(f"queue {queue!r} has no logged errors{of_item}")


queue_changes.register(app)


def _print_errors(session: CommandSession, logged: list[LoggedError]) -> None:
    if session.is_json:
        for error in logged:
            output.json_line(error)
        return
    output.table(
        ["TIME", "ITEM", "SUBJECT", "ATTEMPT", "WORKER", "ERROR"],
        [
            [
                output.format_time(error.at),
                error.item,
                error.subject,
                error.attempt,
                error.worker,
                format_error(error.failure),
            ]
            for error in logged
        ],
    )


def _all_queues(hr: Headrace, prefix: str) -> Iterator[QueueInfo]:
    return all_pages(
        lambda after, limit: hr.queues.list(prefix=prefix, after=after, limit=limit),
        cursor="name",
        after="",
    )
