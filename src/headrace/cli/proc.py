"""``headrace proc``: look at procs, make, move, stop and remove them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET

from headrace.api import Headrace
from headrace.cli import output
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.positions import position
from headrace.client.procs import Proc
from headrace.errors import InvalidOption, UnknownProc, UnknownTopic
from headrace.model.position import FROM_NOW, FROM_START, check_offset, parse_end
from headrace.model.procs import Lag, ProcInfo, Strategy

app = typer.Typer(help="Look at procs, make, move, stop and remove them.", no_args_is_help=True)

ProcName = Annotated[str, typer.Argument(metavar="NAME", help="The proc's name.")]


@command(app)
def ls(
    session: Session,
    *,
    topic: Annotated[str | None, typer.Option(help="Only procs of this topic.")] = None,
) -> None:
    """List procs."""
    with session.open() as hr:
        found = hr.procs(topic=topic)
    if session.is_json:
        output.document(found)
        return
    output.table(
        ["PROC", "TOPIC", "STATUS", "POSITION", "CLAIMED", "RECLAIMS", "LAST ACK"],
        [
            [p.name, p.topic, p.status, _place(p), p.claimed, p.reclaims, p.last_acked_at]
            for p in found
        ],
    )
    if not found:
        output.note("there are no procs" + (f" on topic {topic!r}" if topic else ""))


@command(app)
def show(session: Session, name: ProcName) -> None:
    """Tell all that is known of a proc."""
    with session.open() as hr:
        proc = hr.proc(name)
        _show(session, proc.inspect(), lag=proc.lag())


@command(app)
def create(
    session: Session,
    name: ProcName,
    *,
    topic: Annotated[str, typer.Option(help="The topic it reads.")],
    offset: Annotated[
        str,
        typer.Option(help="Where it starts: '>', '$>', an id, ':seq', milliseconds or a time."),
    ] = FROM_START,
    max_reclaims: Annotated[
        int | None, typer.Option(help="Failures in a row before something is done; -1: never.")
    ] = None,
    reclaim_timeout: Annotated[
        str | None, typer.Option(help="Seconds until a claim is given back, or 'never'.")
    ] = None,
    on_max_reclaims_reached: Annotated[
        Strategy | None, typer.Option(help="What is then done.")
    ] = None,
) -> None:
    """Make a proc; one that exists keeps its place, and gets the settings that are given."""
    timeout = UNSET if reclaim_timeout is None else _seconds(reclaim_timeout)
    with session.open(makes_tables=True) as hr:
        is_new = name not in {proc.name for proc in hr.procs(topic=topic)}
        proc = hr.proc(
            name,
            topic=topic,
            offset=position(offset),
            max_reclaims=UNSET if max_reclaims is None else max_reclaims,
            reclaim_timeout=timeout,
            on_max_reclaims_reached=on_max_reclaims_reached or UNSET,
        )
        output.note(f"proc {name!r} is made" if is_new else f"proc {name!r} existed already")
        _show(session, proc.inspect())


@command(app)
def seek(
    session: Session,
    name: ProcName,
    offset: Annotated[
        str,
        typer.Argument(metavar="OFFSET", help="'>', '$>', an id, ':seq', milliseconds or a time."),
    ],
    *,
    yes: YesOption = False,
) -> None:
    """Move a proc to another place of its topic; drops its claim."""
    target = check_offset(position(offset))
    with session.open() as hr:
        proc = hr.proc(name)
        ask(_forecast(hr, proc.inspect(), target), is_agreed=yes)
        _show(session, proc.seek(target))


@command(app)
def disable(session: Session, name: ProcName) -> None:
    """Hand out no more records."""
    with session.open() as hr:
        _show(session, hr.proc(name).disable())


@command(app)
def resume(session: Session, name: ProcName) -> None:
    """Hand out records again."""
    with session.open() as hr:
        _show(session, hr.proc(name).resume())


@command(app)
def destroy(session: Session, name: ProcName, *, yes: YesOption = False) -> None:
    """Remove a proc; its topic stays as it is."""
    with session.open() as hr:
        proc = hr.proc(name)
        info, lag = proc.inspect(), proc.lag()
        claim = f" and its claim {info.claimed}" if info.claimed else ""
        ask(
            f"proc {name!r} on topic {info.topic!r} will be removed, its place {_place(info)}"
            f"{claim} forgotten; {output.counted(lag.records)} to go",
            is_agreed=yes,
        )
        last = proc.destroy()
    if session.is_json:
        output.document(last)
    output.note(f"proc {name!r} is removed")


@command(app)
def lag(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One proc; otherwise all.")
    ] = None,
) -> None:
    """Tell how far procs are behind, in records and in seconds."""
    with session.open() as hr:
        procs = [hr.proc(name).inspect()] if name else hr.procs()
        found = list(_lags(hr, procs))
    if session.is_json:
        rows = [
            {"name": p.name, "topic": p.topic, "status": p.status, **msgspec.structs.asdict(behind)}
            for p, behind in found
        ]
        output.document(rows[0] if name else rows)
        return
    output.table(
        ["PROC", "TOPIC", "STATUS", "BEHIND", "SECONDS"],
        [[p.name, p.topic, p.status, behind.records, behind.seconds] for p, behind in found],
    )
    if not found:
        output.note("there are no procs")


def _lags(hr: Headrace, procs: list[ProcInfo]) -> Iterator[tuple[ProcInfo, Lag]]:
    for info in procs:
        try:
            yield info, Proc(hr, info.name, info.topic).lag()
        except UnknownProc:
            # Destroyed since it was listed.
            continue


def _show(session: Session, info: ProcInfo, *, lag: Lag | None = None) -> None:
    found: dict[str, Any] = msgspec.structs.asdict(info)
    if lag is not None:
        found["lag"] = lag
    if session.is_json:
        output.document(found)
        return
    if lag is not None:
        found["lag"] = f"{output.counted(lag.records)}, {lag.seconds:g} s"
    output.fields(list(found.items()))


def _place(info: ProcInfo) -> str:
    return f"after {info.offset}" if info.position is None else f":{info.position}"


def _seconds(value: str) -> float | None:
    if value == "never":
        return None
    try:
        return float(value)
    except ValueError:
        raise InvalidOption(
            f"reclaim-timeout is {value!r}: use seconds or never.", option="reclaim_timeout"
        ) from None


def _forecast(hr: Headrace, info: ProcInfo, offset: str) -> str:
    """What a seek will mean, in records."""
    target = _target(hr, info.topic, offset)
    said = f"proc {info.name!r} on topic {info.topic!r} moves from {_place(info)} to "
    if target is None or info.position is None:
        said += f"{offset}, beyond the topic's end" if target is None else f":{target}"
    elif target < info.position:
        said += f":{target}: {output.counted(info.position - target)} will be handed out again"
    elif target > info.position:
        said += f":{target}: {output.counted(target - info.position)} will be skipped"
    else:
        said += f":{target}, where it stands"
    return f"{said}; its claim {info.claimed} is dropped" if info.claimed else said


def _target(hr: Headrace, topic: str, offset: str) -> int | None:
    """The seq that a proc would hand out first from an offset, if there is one yet."""
    try:
        info = hr.topic_info(topic)
        if offset in (FROM_START, FROM_NOW):
            return info.first_seq if offset == FROM_START else info.next_seq
        wanted = parse_end(offset)
        # A timestamp starts at its own millisecond, an exact position behind itself.
        is_exact = wanted.seq is not None
        if wanted.ts is None and wanted.seq == info.next_seq - 1:
            return info.next_seq
        found = next(hr.iterate(topic, offset, exclusive=is_exact, limit=1), None)
    except UnknownTopic:
        return 0 if offset in (FROM_START, FROM_NOW) else None
    return found.seq if found else None
