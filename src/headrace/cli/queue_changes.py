"""``headrace queue``: making, changing, pausing and removing queues."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated

import typer

from headrace.cli import output, queue_views, updates
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.options import settings_of
from headrace.core.looking import QueueReport
from headrace.errors import InvalidOption
from headrace.model.queues import QueueInfo

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]


def register(app: typer.Typer) -> None:
    """Put the commands into place."""
    for function in (create, set, pause, resume, drop):
        command(app)(function)


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


def set(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] OPTION=VALUE", help="The queue's name, and what is to change."
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


def resume(session: Session, name: Name) -> None:
    """Hand out items again."""
    with session.open() as hr:
        _paused(session, hr.resume(name))


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
