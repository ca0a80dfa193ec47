"""``headrace replay``: push a range of a topic's records to a queue."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command
from headrace.cli.completion import queue_names, topic_names
from headrace.cli.progress import AdvanceTo, progress


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(replay)


def replay(
    session: CommandSession,
    topic: Annotated[
        str,
        typer.Argument(metavar="TOPIC", help="The topic to read.", autocompletion=topic_names),
    ],
    start: Annotated[
        str | None, typer.Argument(metavar="[START]", help="An id, :seq or timestamp.")
    ] = None,
    end: Annotated[
        str | None, typer.Argument(metavar="[END]", help="The last record, in the same forms.")
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="QUEUE", help="The queue to push to.", autocompletion=queue_names
        ),
    ],
    subject: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The body's field that becomes the subject.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Items with a higher priority run first.")] = 0,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="At most N records per second.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The replay's name; the same name continues the replay.")
    ] = None,
) -> None:
    """Push a range of records to a queue, each record once.

    If it was stopped or killed, calling it again continues where it stopped.
    """
    with session.open(may_create_tables=True) as hr:
        run = hr.topic(topic).replay(
            to, start, end, rate=rate, subject=subject, priority=priority, name=name
        )
        with progress(f"replay {topic}", total=run.total, is_silent=True) as advance:
            advance_to = AdvanceTo(advance)
            advance_to(run.done(), run.total)
            moved = run.run(advance_to)
    if session.is_json:
        output.json_line({"name": run.name, "moved": moved, "total": run.total})
    else:
        output.line(f"{moved} of {run.total} records moved to queue {to!r}")
