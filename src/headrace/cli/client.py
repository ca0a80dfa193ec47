"""``headrace client``: who works on the queues, and where."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
import typer

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.cli.queue_views import print_workers
from headrace.cli.references import must_be_there

app = typer.Typer(help="Look at clients and their workers.", no_args_is_help=True)


@command(app)
def ls(session: Session) -> None:
    """List clients that have workers, those that were not heard of lately too."""
    with session.open() as hr:
        found = hr.clients()
        workers = Counter(worker.client_id for worker in hr.workers()) if found else Counter()
    if session.is_json:
        output.document(
            [{**msgspec.structs.asdict(one), "workers": workers[one.id]} for one in found]
        )
        return
    output.table(
        ["CLIENT", "ID", "HOST", "PID", "WORKERS", "STARTED", "SEEN"],
        [
            [
                one.name,
                one.id,
                one.host,
                one.pid,
                workers[one.id],
                output.moment(one.started_at),
                output.moment(one.seen_at),
            ]
            for one in found
        ],
    )
    if not found:
        output.note("there are no clients with workers")


@command(app)
def workers(
    session: Session,
    queue: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Only those of this queue.")
    ] = None,
) -> None:
    """List workers: where they run, what they do and how fast."""
    with session.open() as hr:
        found = hr.workers(queue)
        if queue is not None and not found:
            must_be_there(hr, queue)
    if session.is_json:
        output.document(found)
        return
    print_workers(found)
    if not found:
        output.note("there are no workers" + (f" of queue {queue!r}" if queue else ""))
