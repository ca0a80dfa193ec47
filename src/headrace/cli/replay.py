"""``headrace replay``: push a range of a topic's records to a queue."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.cli.progress import progress


def register(app: typer.Typer) -> None:
    """Put the command into place."""
    command(app)(replay)


def replay(
    session: Session,
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    start: Annotated[
        str | None, typer.Argument(metavar="[START]", help="An id, :seq or timestamp.")
    ] = None,
    end: Annotated[
        str | None, typer.Argument(metavar="[END]", help="The last one, in the same forms.")
    ] = None,
    *,
    to: Annotated[str, typer.Option("--to", metavar="QUEUE", help="The queue to push to.")],
    subject: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The field of the body that is the subject.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="At most so many records a second.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What it is known by; the same name goes on with it.")
    ] = None,
) -> None:
    """Push a range of records to a queue, each once.

    Stopped or killed, it goes on where it was when it is called again.
    """
    with session.open(makes_tables=True) as hr:
        run = hr.topic(topic).replay(
            to, start, end, rate=rate, subject=subject, priority=priority, name=name
        )
        before = run.done()
        with progress(f"replay {topic}", total=run.total, is_silent=True) as advance:
            seen = before
            advance(before)

            def tell(done: int, total: int) -> None:
                nonlocal seen
                advance(done - seen)
                seen = done

            moved = run.run(tell)
    if session.is_json:
        output.json_line({"name": run.name, "moved": moved, "total": run.total})
    else:
        output.line(f"{moved} of {run.total} records moved to queue {to!r}")
