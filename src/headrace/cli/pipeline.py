"""``headrace pipeline``: run pipelines, look at them, stop, move and remove them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from headrace.api import Headrace
from headrace.cli import output
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.pipeline_runs import run
from headrace.cli.positions import position
from headrace.errors import UnknownPipeline, UnknownSink
from headrace.model.pipelines import PipelineInfo
from headrace.model.position import FROM_NOW, FROM_START, check_offset
from headrace.pipelines.handles import SystemProc

app = typer.Typer(
    help="Run pipelines, look at them, stop, move and remove them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.")]

command(app)(run)


@command(app)
def ls(session: Session) -> None:
    """List pipelines."""
    with session.open() as hr:
        found = hr.system_procs()
        rows = [[*_line(info), hr.system_proc(info.name).lag().records] for info in found]
    if session.is_json:
        output.document(found)
        return
    titles = ["PIPELINE", "SOURCES", "TARGETS", "PROCESSOR", "COUNT", "STATUS", "BEHIND"]
    output.table(titles, rows)
    if not found:
        output.note("there are no pipelines")


@command(app)
def show(session: Session, name: Name) -> None:
    """Tell all that is known of a pipeline."""
    with session.open() as hr:
        made = hr.system_proc(name)
        _show(session, made.inspect(), made)


@command(app)
def pause(session: Session, name: Name) -> None:
    """Process no more records, wherever it runs."""
    with session.open() as hr:
        _show(session, hr.system_proc(name).pause())


@command(app)
def resume(session: Session, name: Name) -> None:
    """Go on, also after too many failures."""
    with session.open() as hr:
        _show(session, hr.system_proc(name).resume())


@command(app)
def reset(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A pipeline, or a stream's sink.")],
    *,
    offset: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where a pipeline goes on: '>', '$>', after an id or ':seq', or at a time.",
        ),
    ] = FROM_START,
    yes: YesOption = False,
) -> None:
    """Let a pipeline start anew; or let another query write to a stream's sink."""
    target = check_offset(position(offset))
    with session.open() as hr:
        try:
            made = hr.system_proc(name)
        except UnknownPipeline as error:
            _reset_sink(session, hr, name, yes, error)
            return
        topics = ", ".join(repr(topic) for topic in made.inspect().sources)
        ask(
            f"pipeline {name!r} goes on {_place(target)} of {topics}, and processes again what it "
            "finds there; its claims are dropped, what it has committed stays",
            is_agreed=yes,
        )
        _show(session, made.seek(target))


@command(app)
def destroy(session: Session, name: Name, *, yes: YesOption = False) -> None:
    """Remove a pipeline; its topics stay as they are."""
    with session.open() as hr:
        made = hr.system_proc(name)
        behind = output.counted(made.lag().records)
        ask(
            f"pipeline {name!r} will be removed, and how far it has read forgotten; {behind} to go",
            is_agreed=yes,
        )
        last = made.destroy()
    if session.is_json:
        output.document(last)
    output.note(f"pipeline {name!r} is removed")


@command(app)
def lag(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One pipeline; otherwise all.")
    ] = None,
) -> None:
    """Tell how far pipelines are behind, in records and in seconds."""
    with session.open() as hr:
        infos = [hr.system_proc(name).inspect()] if name else hr.system_procs()
        rows = []
        for info in infos:
            behind = hr.system_proc(info.name).lag()
            rows.append(
                {"name": info.name, "status": info.status, **msgspec.structs.asdict(behind)}
            )
    if session.is_json:
        output.document(rows[0] if name else rows)
        return
    output.table(
        ["PIPELINE", "STATUS", "BEHIND", "SECONDS"],
        [[row["name"], row["status"], row["records"], row["seconds"]] for row in rows],
    )
    if not rows:
        output.note("there are no pipelines")


def _place(offset: str) -> str:
    words = {FROM_START: "at the start", FROM_NOW: "at the end"}
    return words.get(offset, f"after {offset}")


def _line(info: PipelineInfo) -> list[Any]:
    processor = f"{info.processor} (inline)" if info.is_inline else info.processor
    sources, targets = ",".join(info.sources), ",".join(info.targets)
    return [info.name, sources, targets, processor, info.count, info.status]


def _show(session: Session, info: PipelineInfo, made: SystemProc | None = None) -> None:
    lag = None if made is None else made.lag()
    if session.is_json:
        found: dict[str, Any] = msgspec.structs.asdict(info)
        output.document(found if lag is None else {**found, "lag": lag})
        return
    names = ("name", "sources", "targets", "processor", "count", "status")
    pairs: list[tuple[str, object]] = list(zip(names, _line(info), strict=True))
    if lag is not None:
        pairs.append(("lag", f"{output.counted(lag.records)}, {lag.seconds:g} s"))
    output.fields(pairs)
    output.line("")
    output.table(
        ["PROC", "TOPIC", "STATUS", "POSITION", "CLAIMED", "RECLAIMS", "LAST ACK", "LAST ERROR"],
        [
            [
                *(proc.name, proc.topic, proc.status),
                f"after {proc.offset}" if proc.position is None else f":{proc.position}",
                *(proc.claimed, proc.reclaims, proc.last_acked_at, proc.last_error),
            ]
            for proc in info.procs
        ],
    )


def _reset_sink(
    session: Session, hr: Headrace, name: str, yes: bool, error: UnknownPipeline
) -> None:
    sink = hr.sink(name)
    try:
        info = sink.info()
    except UnknownSink:
        raise error from None
    ask(
        f"sink {name!r} forgets the query {info.query} that wrote up to batch {info.batch}: the "
        "next query may write to it, from wherever its checkpoint or its start says; what was "
        "written stays",
        is_agreed=yes,
    )
    last = sink.reset()
    if session.is_json:
        output.document(last)
    output.note(f"sink {name!r} takes another query now")
