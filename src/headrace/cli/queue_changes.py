"""``headrace queue``: create, change, pause and remove queues."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli import output, queue_views
from headrace.cli.command import CommandSession, command
from headrace.cli.completion import queue_names
from headrace.cli.help import HelpCommand, Section
from headrace.cli.parse_settings import parse_settings
from headrace.cli.prompts import YesOption, confirm
from headrace.cli.queue_update import TIME_LIMIT_SECONDS, update_settings
from headrace.cli.settings_help import describe_settings
from headrace.core.views import QueueReport
from headrace.errors import InvalidOption
from headrace.model.queues.settings import OPTIONS, QueueInfo

NewName = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The queue's name.", autocompletion=queue_names)
]


def words_of_set(ctx: typer.Context, incomplete: str) -> list[str]:
    """What may follow ``queue set``: the name of a queue, then settings."""
    if ctx.params.get("words") or ctx.params.get("defaults"):
        return [f"{option}=" for option in OPTIONS]
    return queue_names(ctx, incomplete)


class SettingsCommand(HelpCommand):
    """A command whose help lists the settings of a queue."""

    def sections(self) -> Sequence[Section]:
        return [("Settings", describe_settings())]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    command(app, cls=SettingsCommand)(create)
    command(app, cls=SettingsCommand)(set)
    for function in (pause, resume, drop):
        command(app)(function)


def create(
    session: CommandSession,
    name: NewName,
    *,
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION=VALUE", help="A setting; may be repeated."),
    ] = None,
) -> None:
    """Create a queue; settings that are not given have the stored defaults."""
    settings = parse_settings(set or [])
    with session.open(may_create_tables=True) as hr:
        hr.queues.create(name, **settings)
        [report] = hr.queues.info(name)
    output.note(f"created queue {name!r}")
    if session.is_json:
        output.json_document(report)
    else:
        queue_views.print_settings(report.settings)


def set(
    session: CommandSession,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] OPTION=VALUE",
            help="The queue's name, and the settings to change.",
            autocompletion=words_of_set,
        ),
    ],
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Change the settings that new queues get.")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="How long to wait for workers to stop; default: 10."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Change nothing unless all workers stop in time.")
    ] = False,
) -> None:
    """Change settings while all workers of the queue are stopped, and list those workers."""
    if defaults:
        if time_limit is not None or strict:
            raise InvalidOption(
                "no worker stops for --defaults: leave --time-limit and --strict out.",
                option="defaults",
            )
        settings = parse_settings(words)
        with session.open(may_create_tables=True) as hr:
            stored = hr.queues.set_defaults(**settings)
        queue_views.print_settings(stored, is_json=session.is_json)
        return
    name, *pairs = words
    if "=" in name or not pairs:
        raise InvalidOption(
            "give the NAME of a queue and then OPTION=VALUE, or --defaults.", option="words"
        )
    update_settings(
        session,
        name,
        parse_settings(pairs),
        time_limit=TIME_LIMIT_SECONDS if time_limit is None else time_limit,
        strict=strict,
    )


def pause(
    session: CommandSession,
    name: Name,
    *,
    by: Annotated[
        str | None, typer.Option(help="Who pauses it, for people; default: user@host.")
    ] = None,
) -> None:
    """Stop claims until the queue is resumed; items in flight can still be completed."""
    with session.open() as hr:
        _print_paused(session, hr.queue(name).pause(by=by or _user_at_host()))


def resume(session: CommandSession, name: Name) -> None:
    """Allow claims from a paused queue again."""
    with session.open() as hr:
        _print_paused(session, hr.queue(name).resume())


def drop(
    session: CommandSession,
    name: Name,
    *,
    keep_data: Annotated[
        bool,
        typer.Option("--keep-data", help="Keep its items for a later queue of this name."),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Remove a queue and its items."""
    with session.open() as hr:
        [report] = hr.queues.info(name)
        confirm(_forecast_drop(report, keep_data=keep_data), is_confirmed=yes)
        live = hr.queue(name).drop(keep_data=keep_data)
    if session.is_json:
        output.json_document({"queue": name, "live": live, "is_data_kept": keep_data})
    verb = "kept" if keep_data else "removed"
    output.note(f"removed queue {name!r}; {verb} {output.format_count(live, 'live item')}")


def _print_paused(session: CommandSession, info: QueueInfo) -> None:
    if session.is_json:
        output.json_document(info)
    else:
        output.fields([("queue", info.name), ("paused", queue_views.format_paused(info))])


def _forecast_drop(report: QueueReport, *, keep_data: bool) -> str:
    """What a drop will mean."""
    stats = report.stats
    live = stats.planned + stats.pending + stats.active
    text = f"queue {report.name!r} will be removed; its {output.format_count(live, 'live item')}"
    if stats.active:
        text += f" ({stats.active:,} in flight)"
    text += f", {stats.dead:,} dead and {stats.completed:,} completed "
    text += "stay for a later queue of that name" if keep_data else "are removed with it"
    workers = len(report.workers)
    return f"{text}; it has {output.format_count(workers, 'worker')}" if workers else text


def _user_at_host() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        # The user id has no name, as in some containers.
        return socket.gethostname()
