"""``headrace proc``: list, create, move, disable and remove procs."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET

from headrace._sync.headrace import Headrace
from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import proc_names, topic_names
from headrace.cli.parse_position import parse_position
from headrace.cli.parse_time import parse_delay
from headrace.cli.proc_views import format_lag, format_position, lags
from headrace.cli.prompts import YesOption, confirm
from headrace.errors import UnknownTopic
from headrace.model.topics.positions import FROM_NOW, FROM_START, check_offset, parse_end
from headrace.model.topics.procs import Lag, ProcInfo, Strategy

app = group("List, create, move, disable and remove procs.")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="The proc's name.")]
ProcName = Annotated[
    str, typer.Argument(metavar="NAME", help="The proc's name.", autocompletion=proc_names)
]


@command(app)
def ls(
    session: CommandSession,
    *,
    topic: Annotated[
        str | None, typer.Option(help="Only procs of this topic.", autocompletion=topic_names)
    ] = None,
) -> None:
    """List procs."""
    with session.open() as hr:
        procs = hr.procs.list(topic=topic)
    if session.is_json:
        output.json_document(procs)
        return
    output.table(
        ["PROC", "TOPIC", "STATUS", "POSITION", "CLAIMED", "ATTEMPTS", "LAST ACK"],
        [
            [p.name, p.topic, p.status, format_position(p), p.claimed, p.attempts, p.last_acked_at]
            for p in procs
        ],
    )
    if not procs:
        output.note("there are no procs" + (f" on topic {topic!r}" if topic else ""))


@command(app)
def show(session: CommandSession, name: ProcName) -> None:
    """Show a proc and its lag."""
    with session.open() as hr:
        proc = hr.proc(name)
        _show(session, proc.info(), lag=proc.lag())


@command(app)
def create(
    session: CommandSession,
    name: NewName,
    *,
    topic: Annotated[str, typer.Option(help="The topic it reads.", autocompletion=topic_names)],
    offset: Annotated[
        str,
        typer.Option(help="The start: '>', '$>', an id, ':seq', milliseconds or a time."),
    ] = FROM_START,
    max_attempts: Annotated[
        int | None, typer.Option(help="Failures in a row before the strategy applies; -1: never.")
    ] = None,
    lease: Annotated[
        str | None, typer.Option(help="How long a claim lasts: seconds, words like 5m, or 'never'.")
    ] = None,
    on_exhausted: Annotated[
        Strategy | None, typer.Option(help="The strategy after too many failures.")
    ] = None,
) -> None:
    """Create a proc; an existing one keeps its position and gets the settings that are given."""
    seconds = UNSET if lease is None else _parse_lease(lease)
    with session.open(may_create_tables=True) as hr:
        is_new = name not in {proc.name for proc in hr.procs.list(topic=topic)}
        proc = hr.procs.create(
            name,
            topic,
            offset=parse_position(offset),
            max_attempts=UNSET if max_attempts is None else max_attempts,
            lease=seconds,
            on_exhausted=on_exhausted or UNSET,
        )
        output.note(f"created proc {name!r}" if is_new else f"proc {name!r} existed already")
        if not _has_records(hr, topic):
            output.note(
                f"topic {topic!r} has no records yet: the proc waits for the first one; if the "
                f"name is wrong, remove the proc with `headrace proc delete {shlex.quote(name)}`"
            )
        _show(session, proc.info())


@command(app)
def seek(
    session: CommandSession,
    name: ProcName,
    offset: Annotated[
        str,
        typer.Argument(metavar="OFFSET", help="'>', '$>', an id, ':seq', milliseconds or a time."),
    ],
    *,
    yes: YesOption = False,
) -> None:
    """Move a proc to another position in its topic, and drop its claim."""
    target = check_offset(parse_position(offset))
    with session.open() as hr:
        proc = hr.proc(name)
        confirm(_forecast_seek(hr, proc.info(), target), is_confirmed=yes)
        _show(session, proc.seek(target))


@command(app)
def disable(session: CommandSession, name: ProcName) -> None:
    """Stop claims of a proc."""
    with session.open() as hr:
        _show(session, hr.proc(name).disable())


@command(app)
def resume(session: CommandSession, name: ProcName) -> None:
    """Allow claims of a disabled proc again."""
    with session.open() as hr:
        _show(session, hr.proc(name).resume())


@command(app)
def delete(session: CommandSession, name: ProcName, *, yes: YesOption = False) -> None:
    """Remove a proc; its topic stays."""
    with session.open() as hr:
        proc = hr.proc(name)
        info, lag = proc.info(), proc.lag()
        claim = f" and its claim {info.claimed}" if info.claimed else ""
        confirm(
            f"proc {name!r} on topic {info.topic!r} will be removed with its position "
            f"{format_position(info)}{claim}; {output.format_count(lag.records)} not acked",
            is_confirmed=yes,
        )
        last = proc.delete()
    if session.is_json:
        output.json_document(last)
    output.note(f"proc {name!r} is removed")


@command(app)
def lag(
    session: CommandSession,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One proc; default: all.", autocompletion=proc_names),
    ] = None,
) -> None:
    """Show how far procs are behind, in records and in seconds."""
    with session.open() as hr:
        procs = [hr.proc(name).info()] if name else hr.procs.list()
        proc_lags = list(lags(hr, procs))
    if session.is_json:
        rows = [
            {"name": p.name, "topic": p.topic, "status": p.status, **msgspec.structs.asdict(behind)}
            for p, behind in proc_lags
        ]
        output.json_document(rows[0] if name else rows)
        return
    output.table(
        ["PROC", "TOPIC", "STATUS", "BEHIND", "SECONDS"],
        [[p.name, p.topic, p.status, behind.records, behind.seconds] for p, behind in proc_lags],
    )
    if not proc_lags:
        output.note("there are no procs")


def _has_records(hr: Headrace, topic: str) -> bool:
    try:
        hr.topic(topic).info()
    except UnknownTopic:
        return False
    return True


def _show(session: CommandSession, info: ProcInfo, *, lag: Lag | None = None) -> None:
    fields: dict[str, Any] = msgspec.structs.asdict(info)
    if lag is not None:
        fields["lag"] = lag if session.is_json else format_lag(lag)
    if session.is_json:
        output.json_document(fields)
    else:
        output.fields(list(fields.items()))


def _parse_lease(value: str) -> float | str | None:
    return None if value == "never" else parse_delay(value)


def _forecast_seek(hr: Headrace, info: ProcInfo, offset: str) -> str:
    """What a seek will mean, in records."""
    target = _first_seq(hr, info.topic, offset)
    text = f"proc {info.name!r} on topic {info.topic!r} moves from {format_position(info)} to "
    if target is None or info.position is None:
        text += f"{offset}, beyond the topic's end" if target is None else f":{target}"
    elif target < info.position:
        text += f":{target}: {output.format_count(info.position - target)} will be delivered again"
    elif target > info.position:
        text += f":{target}: {output.format_count(target - info.position)} will be skipped"
    else:
        text += f":{target}, its present position"
    return f"{text}; its claim {info.claimed} is dropped" if info.claimed else text


def _first_seq(hr: Headrace, topic: str, offset: str) -> int | None:
    """The sequence number of the first record that a proc claims from an offset, if it exists."""
    try:
        info = hr.topic(topic).info()
        if offset in (FROM_START, FROM_NOW):
            return info.first_seq if offset == FROM_START else info.next_seq
        end = parse_end(offset)
        # A timestamp includes its own millisecond; an exact position excludes its record.
        is_exact = end.seq is not None
        if end.ts is None and end.seq == info.next_seq - 1:
            return info.next_seq
        first = next(hr.iterate(topic, offset, exclusive=is_exact, limit=1), None)
    except UnknownTopic:
        return 0 if offset in (FROM_START, FROM_NOW) else None
    return first.seq if first else None
