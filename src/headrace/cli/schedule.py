"""``headrace schedule``: actions at due times."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import schedule_names
from headrace.cli.pages import all_pages
from headrace.cli.parse_body import parse_headers, parse_json
from headrace.cli.parse_time import parse_delay, parse_moment
from headrace.cli.prompts import YesOption, confirm
from headrace.cli.schedule_run import run
from headrace.cli.schedule_views import print_coming, print_schedule, print_schedules, to_dict
from headrace.core.documents import Commit, Push
from headrace.core.schedules import MAX_COMING, note_on, timing_of
from headrace.errors import InvalidOption

app = group("Add, list, trigger, pause and remove schedules, and fire them.")

Name = Annotated[
    str,
    typer.Argument(metavar="SCHEDULE", help="The schedule's name.", autocompletion=schedule_names),
]
Cron = Annotated[
    str | None,
    typer.Option(
        metavar="FIELDS",
        help="Minute, hour, day of the month, month, day of the week; or a word like @daily.",
    ),
]
Every = Annotated[
    str | None, typer.Option(metavar="TIME", help="At this interval: seconds, or like 10m.")
]
At = Annotated[str | None, typer.Option(metavar="MOMENT", help="Once, at this moment.")]
Zone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="The time zone of --cron, like Europe/Berlin; default: UTC."),
]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=MAX_COMING, help="How many.")]


@command(app)
def add(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its name.")],
    body: Annotated[
        str | None,
        typer.Argument(metavar="BODY", help="What is pushed or committed, as JSON; default: {}."),
    ] = None,
    *,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    zone: Zone = None,
    push: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Push an item to this queue.")
    ] = None,
    upsert: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Push it, or update the live one.")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Commit a record to this topic.")
    ] = None,
    pause: Annotated[str | None, typer.Option(metavar="QUEUE", help="Pause this queue.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="QUEUE", help="Resume this queue.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="The item's identity; default: the schedule's name.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Items with a higher priority run first.")] = 0,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="While an earlier item waits or runs: skip, queue, replace or allow; default: skip.",
        ),
    ] = None,
    misfire: Annotated[
        str,
        typer.Option(
            metavar="RULE", help="What becomes of times over a minute late: once, skip or all."
        ),
    ] = "once",
    spread: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Fire later by a part of this, always the same."),
    ] = None,
    starts_at: Annotated[
        str | None, typer.Option(metavar="MOMENT", help="Not before this moment.")
    ] = None,
    ends_at: Annotated[
        str | None, typer.Option(metavar="MOMENT", help="Not after this moment.")
    ] = None,
    max_fires: Annotated[
        int | None, typer.Option(metavar="N", help="End after firing this often.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another content under the name.")
    ] = False,
) -> None:
    """Add a schedule, and show when it is due. The same content again does nothing."""
    target = push or upsert
    fields: dict[str, Any] = {
        "subject": subject,
        "priority": priority,
        "headers": parse_headers(header or []) or None,
    }
    _check_body(body, fields, is_needed=target is not None or commit is not None)
    content = {} if body is None else parse_json(body)
    made = None if target is None else Push(target, content, **fields)
    with session.open(may_create_tables=True) as hr, warnings.catch_warnings():
        # It is a note on stderr here.
        warnings.simplefilter("ignore")
        info = hr.schedules.add(
            name,
            replace=replace,
            cron=cron,
            every=parse_delay(every),
            at=parse_moment("at", at),
            zone=zone,
            push=made if push is not None else None,
            upsert=made if push is None else None,
            commit=None if commit is None else Commit(commit, content, fields["headers"]),
            pause=pause,
            resume=resume,
            overlap=overlap,  # type: ignore[arg-type]  # the library checks the word
            misfire=misfire,  # type: ignore[arg-type]  # likewise
            spread=parse_delay(spread),
            starts_at=parse_moment("starts_at", starts_at),
            ends_at=parse_moment("ends_at", ends_at),
            max_fires=max_fires,
        )
        coming = hr.schedules.next(name, 3)
    if info.cron is not None:
        note = note_on(timing_of({"cron": info.cron, "zone": info.zone}))
        if note is not None:
            output.note(note)
    if session.is_json:
        output.json_document(to_dict(info))
    elif coming:
        print_coming(coming, is_json=False)
    else:
        output.note(f"schedule {name!r} is {info.state}: it is not due again")


def _check_body(body: str | None, fields: dict[str, Any], *, is_needed: bool) -> None:
    if not is_needed and (body is not None or any(fields.values())):
        raise InvalidOption(
            "BODY, --subject, --priority and --header go with --push, --upsert or --commit.",
            option="body",
        )


@command(app)
def ls(
    session: CommandSession,
    *,
    prefix: Annotated[str, typer.Option(help="Only names that begin so.")] = "",
) -> None:
    """List schedules by name."""
    with session.open() as hr:
        found = list(
            all_pages(
                lambda after, limit: hr.schedules.list(prefix=prefix, after=after, limit=limit),
                cursor="name",
                after="",
            )
        )
    print_schedules(found, is_json=session.is_json)


@command(app)
def show(session: CommandSession, name: Name) -> None:
    """Show a schedule: what it does, when, and what has become of it."""
    with session.open() as hr:
        info = hr.schedules.get(name)
    print_schedule(info, is_json=session.is_json)


@command(app, name="next")
def coming(
    session: CommandSession,
    name: Annotated[
        str | None,
        typer.Argument(metavar="SCHEDULE", help="Its name.", autocompletion=schedule_names),
    ] = None,
    *,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    zone: Zone = None,
    count: Count = 5,
) -> None:
    """Show the next times of a schedule, or of a cron expression: local and UTC."""
    given = {"cron": cron, "every": parse_delay(every), "at": parse_moment("at", at), "zone": zone}
    timing: Any = {option: value for option, value in given.items() if value is not None}
    with session.open() as hr:
        times = hr.schedules.next(name, count, **timing)
    print_coming(times, is_json=session.is_json)
    if not times:
        output.note("it is not due again, or paused")


@command(app)
def trigger(session: CommandSession, name: Name) -> None:
    """Do what a schedule does, now; its due times stay as they are."""
    with session.open() as hr:
        firing = hr.schedules.trigger(name)
    if session.is_json:
        output.json_document(firing)
    elif firing.outcome == "skipped":
        output.note(f"skipped: item {firing.item} of an earlier firing still waits or runs")
    else:
        item = "" if firing.item is None else f": item {firing.item}"
        output.note(f"fired {name!r}{item}")


@command(app)
def pause(session: CommandSession, name: Name) -> None:
    """Let a schedule not fire until it is resumed."""
    with session.open() as hr:
        info = hr.schedules.pause(name)
    _print_change(session, info)


@command(app)
def resume(session: CommandSession, name: Name) -> None:
    """Let a paused schedule fire again; what it missed is not made up for."""
    with session.open() as hr:
        info = hr.schedules.resume(name)
    _print_change(session, info)


@command(app)
def rm(session: CommandSession, name: Name, *, yes: YesOption = False) -> None:
    """Remove a schedule. Items that it has pushed stay."""
    with session.open() as hr:
        info = hr.schedules.get(name)
        confirm(f"schedule {name!r} ({info.action}) will be removed", is_confirmed=yes)
        info = hr.schedules.remove(name)
    if session.is_json:
        output.json_document(to_dict(info))
    else:
        output.note(f"removed schedule {name!r}")


def _print_change(session: CommandSession, info: Any) -> None:
    if session.is_json:
        output.json_document(to_dict(info))
    else:
        due = "" if info.next is None else f", next at {output.format_value(info.next)}"
        output.note(f"schedule {info.name!r} is {info.state}{due}")


command(app)(run)
