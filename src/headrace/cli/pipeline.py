"""``headrace pipeline``: run, list, pause, move and remove pipelines."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import msgspec
import typer

from headrace._sync.headrace import Headrace
from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import pipeline_names
from headrace.cli.parse_position import parse_position
from headrace.cli.pipeline_run import run
from headrace.cli.proc_views import format_lag, format_position
from headrace.cli.prompts import YesOption, confirm
from headrace.errors import UnknownTopic
from headrace.model.names import dead_topic
from headrace.model.pipelines import PipelineInfo
from headrace.model.topics.positions import FROM_NOW, FROM_START, check_offset

app = group("Run, list, pause, move and remove pipelines.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The pipeline's name.", autocompletion=pipeline_names)
]

command(app)(run)


@command(app)
def ls(session: CommandSession) -> None:
    """List pipelines."""
    with session.open() as hr:
        pipelines = hr.pipelines.list()
        rows = [[*_row(info), hr.pipeline(info.name).lag().records] for info in pipelines]
    if session.is_json:
        output.json_document(pipelines)
        return
    titles = ["PIPELINE", "SOURCES", "TARGETS", "PROCESSOR", "COUNT", "STATUS", "BEHIND"]
    output.table(titles, rows)
    if not pipelines:
        output.note("there are no pipelines")


@command(app)
def show(session: CommandSession, name: Name) -> None:
    """Show a pipeline, with its procs and their last errors."""
    with session.open() as hr:
        _show(session, hr.pipeline(name).info(), hr)


@command(app)
def pause(session: CommandSession, name: Name) -> None:
    """Stop processing records, on all runners."""
    with session.open() as hr:
        _show(session, hr.pipeline(name).pause())


@command(app)
def resume(session: CommandSession, name: Name) -> None:
    """Continue a paused pipeline, or one that was disabled after too many failures."""
    with session.open() as hr:
        _show(session, hr.pipeline(name).resume())


@command(app)
def seek(
    session: CommandSession,
    name: Name,
    offset: Annotated[
        str,
        typer.Argument(metavar="OFFSET", help="'>', '$>', an id, ':seq', milliseconds or a time."),
    ],
    *,
    yes: YesOption = False,
) -> None:
    """Move a pipeline to another position in its topics, and drop its claims."""
    target = check_offset(parse_position(offset))
    with session.open() as hr:
        pipeline = hr.pipeline(name)
        topics = ", ".join(repr(topic) for topic in pipeline.info().sources)
        confirm(
            f"pipeline {name!r} continues {_format_offset(target)} of {topics}, and processes the "
            "records there again; its claims are dropped, its commits stay",
            is_confirmed=yes,
        )
        _show(session, pipeline.seek(target))


@command(app)
def delete(session: CommandSession, name: Name, *, yes: YesOption = False) -> None:
    """Remove a pipeline; its topics stay."""
    with session.open() as hr:
        pipeline = hr.pipeline(name)
        behind = output.format_count(pipeline.lag().records)
        confirm(
            f"pipeline {name!r} will be removed with its positions; {behind} not processed",
            is_confirmed=yes,
        )
        last = pipeline.delete()
    if session.is_json:
        output.json_document(last)
    output.note(f"pipeline {name!r} is removed")


@command(app)
def lag(
    session: CommandSession,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="One pipeline; default: all.", autocompletion=pipeline_names
        ),
    ] = None,
) -> None:
    """Show how far pipelines are behind, in records and in seconds."""
    with session.open() as hr:
        infos = [hr.pipeline(name).info()] if name else hr.pipelines.list()
        rows = []
        for info in infos:
            behind = hr.pipeline(info.name).lag()
            rows.append(
                {"name": info.name, "status": info.status, **msgspec.structs.asdict(behind)}
            )
    if session.is_json:
        output.json_document(rows[0] if name else rows)
        return
    output.table(
        ["PIPELINE", "STATUS", "BEHIND", "SECONDS"],
        [[row["name"], row["status"], row["records"], row["seconds"]] for row in rows],
    )
    if not rows:
        output.note("there are no pipelines")


def _format_offset(offset: str) -> str:
    names = {FROM_START: "at the start", FROM_NOW: "at the end"}
    return names.get(offset, f"after {offset}")


def _row(info: PipelineInfo) -> list[Any]:
    processor = f"{info.processor} (inline)" if info.is_inline else info.processor
    sources, targets = ",".join(info.sources), ",".join(info.targets)
    return [info.name, sources, targets, processor, info.count, info.status]


def _dead_letters(hr: Headrace, info: PipelineInfo) -> dict[str, int]:
    """The topics with dead letters of a pipeline, and how many records each has."""
    counts = {}
    for proc in info.procs:
        topic = dead_topic(proc.name)
        with contextlib.suppress(UnknownTopic):
            counts[topic] = hr.topic(topic).length()
    return counts


def _show(session: CommandSession, info: PipelineInfo, hr: Headrace | None = None) -> None:
    """Print a pipeline; with a client also its lag and its dead letters."""
    fields: dict[str, Any] = msgspec.structs.asdict(info)
    if hr is not None:
        lag = hr.pipeline(info.name).lag()
        fields |= {"lag": lag, "dead_letters": _dead_letters(hr, info)}
    if session.is_json:
        output.json_document(fields)
        return
    names = ("name", "sources", "targets", "processor", "count", "status")
    pairs: list[tuple[str, object]] = list(zip(names, _row(info), strict=True))
    if info.timeout is not None:
        pairs.append(("timeout", f"{info.timeout:g} s"))
    if hr is not None:
        dead = [f"{count:,} in topic {topic}" for topic, count in fields["dead_letters"].items()]
        pairs.append(("lag", format_lag(fields["lag"])))
        pairs.append(("dead letters", ", ".join(dead) or "none"))
    output.fields(pairs)
    output.line("")
    output.table(
        ["PROC", "TOPIC", "STATUS", "POSITION", "CLAIMED", "ATTEMPTS", "LAST ACK", "LAST ERROR"],
        [
            [
                *(proc.name, proc.topic, proc.status),
                format_position(proc),
                *(proc.claimed, proc.attempts, proc.last_acked_at, proc.last_error),
            ]
            for proc in info.procs
        ],
    )
