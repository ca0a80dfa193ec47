"""``headrace queue``: look at queues, make, change, pause and remove them."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from headrace.api import Headrace
from headrace.cli import output, queue_views, updates
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.items import error_text
from headrace.cli.options import settings_of
from headrace.cli.references import QueueName, reference
from headrace.client.queue_calls import LAST_ID
from headrace.contract.items import LoggedError
from headrace.core.looking import QueueReport
from headrace.errors import InvalidOption
from headrace.model.queues import QueueInfo

PAGE = 1000

app = typer.Typer(help="Look at queues, make, change, pause and remove them.", no_args_is_help=True)

OptionalName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The queue's name.", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]


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
def create(
    session: Session,
    name: Name,
    *,
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION=VALUE", help="A setting; may be repeated."),
    ] = None,
) -> None:
    """Make a queue; it has the stored defaults where nothing else is said."""
    settings = settings_of(set or [])
    with session.open(makes_tables=True) as hr:
        hr.create(name, **settings)
        [report] = hr.info(name)
    output.note(f"queue {name!r} is made")
    if session.is_json:
        output.document(report)
    else:
        queue_views.print_settings(report.settings)


@command(app)
def set(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] OPTION=VALUE...", help="The queue's name, and what is to change."
        ),
    ],
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Change the settings that new queues get.")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="How long to wait for workers to stop; 10 otherwise."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Change nothing unless all workers stop in time.")
    ] = False,
) -> None:
    """Change settings while no worker of the queue runs, wherever; tells who stopped."""
    if defaults:
        if time_limit is not None or strict:
            raise InvalidOption(
                "no worker stops for --defaults: leave --time-limit and --strict out.",
                option="defaults",
            )
        settings = settings_of(words)
        with session.open(makes_tables=True) as hr:
            stored = hr.set_queue_defaults(**settings)
        queue_views.print_settings(stored, is_json=session.is_json)
        return
    name, *pairs = words
    if "=" in name or not pairs:
        raise InvalidOption(
            "give the NAME of a queue and then OPTION=VALUE, or --defaults.", option="words"
        )
    updates.update(
        session,
        name,
        settings_of(pairs),
        time_limit=updates.TIME_LIMIT if time_limit is None else time_limit,
        strict=strict,
    )


@command(app)
def pause(
    session: Session,
    name: Name,
    *,
    by: Annotated[
        str | None, typer.Option(help="Who does it, for people; you, unless said otherwise.")
    ] = None,
) -> None:
    """Hand out nothing until the queue is resumed; what is out can be settled."""
    with session.open() as hr:
        _paused(session, hr.pause(name, by=by or _me()))


@command(app)
def resume(session: Session, name: Name) -> None:
    """Hand out items again."""
    with session.open() as hr:
        _paused(session, hr.resume(name))


@command(app)
def drop(
    session: Session,
    name: Name,
    *,
    keep_data: Annotated[
        bool,
        typer.Option("--keep-data", help="Leave its items for a queue made later by this name."),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Remove a queue and all that is in it."""
    with session.open() as hr:
        [report] = hr.info(name)
        ask(_forecast(report, keep_data=keep_data), is_agreed=yes)
        live = hr.drop(name, keep_data=keep_data)
    if session.is_json:
        output.document({"queue": name, "live": live, "is_data_kept": keep_data})
    fate = "kept" if keep_data else "gone with it"
    output.note(f"queue {name!r} is removed; {fate}: {output.counted(live, 'live item')}")


@command(app)
def stats(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One queue; otherwise all.")
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
        int, typer.Option("--limit", "-n", min=1, help="How many of the newest errors.")
    ] = 20,
) -> None:
    """Print what went wrong, newest first."""
    with session.open() as hr:
        found = reference(session, hr, queue).errors(item=item, limit=limit)
    _print_errors(session, found)
    if not found:
        whose = "" if item is None else f" of item {item}"
        output.note(f"queue {queue!r} has no errors{whose} on record")


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


def _paused(session: Session, info: QueueInfo) -> None:
    if session.is_json:
        output.document(info)
    else:
        output.fields([("queue", info.name), ("paused", queue_views.paused(info))])


def _forecast(report: QueueReport, *, keep_data: bool) -> str:
    """What a drop will mean."""
    stats = report.stats
    live = stats.planned + stats.pending + stats.active
    said = f"queue {report.name!r} will be removed; its {output.counted(live, 'live item')}"
    if stats.active:
        said += f" ({stats.active:,} in flight)"
    said += f", {stats.dead:,} dead and {stats.completed:,} completed "
    said += "stay for a queue of that name" if keep_data else "go with it"
    workers = len(report.workers)
    return f"{said}; {output.counted(workers, 'worker')} of it at work" if workers else said


def _me() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        # Nobody of that number is known here, as in some containers.
        return socket.gethostname()
