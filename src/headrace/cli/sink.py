"""``headrace sink``: where streams of Spark write, and which query may write there."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import sink_names
from headrace.cli.prompts import YesOption, confirm

app = group("List the sinks of streams, and let another query write to one.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The sink's name.", autocompletion=sink_names)
]


@command(app)
def ls(session: CommandSession) -> None:
    """List sinks."""
    with session.open() as hr:
        sinks = hr.sinks.list()
    if session.is_json:
        output.json_document(sinks)
        return
    output.table(
        ["SINK", "QUERY", "BATCH", "TIME"],
        [[info.name, info.query, info.batch, info.time] for info in sinks],
    )
    if not sinks:
        output.note("there are no sinks")


@command(app)
def show(session: CommandSession, name: Name) -> None:
    """Show a sink: its query and the batch that was written last."""
    with session.open() as hr:
        info = hr.sinks.info(name)
    if session.is_json:
        output.json_document(info)
    else:
        output.fields(
            [
                ("sink", info.name),
                ("query", info.query),
                ("batch", info.batch),
                ("time", info.time),
                *(
                    (f"to {target}", output.format_count(count))
                    for target, count in info.published.records.items()
                ),
            ]
        )


@command(app)
def reset(session: CommandSession, name: Name, *, yes: YesOption = False) -> None:
    """Let another query write to a sink; what was written stays."""
    with session.open() as hr:
        info = hr.sinks.info(name)
        confirm(
            f"sink {name!r} forgets the query {info.query} that wrote up to batch {info.batch}: "
            "the next query may write to it, from its own checkpoint or starting position; "
            "records that were written stay",
            is_confirmed=yes,
        )
        last = hr.sinks.reset(name)
    if session.is_json:
        output.json_document(last)
    output.note(f"sink {name!r} accepts another query now")
