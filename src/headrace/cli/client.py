"""``headrace client``: clients and their workers."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import queue_names
from headrace.cli.queue_lookup import check_queue_exists
from headrace.cli.queue_views import print_workers

app = group("List clients and their workers.")


@command(app)
def ls(session: CommandSession) -> None:
    """List clients that have workers, including silent ones."""
    with session.open() as hr:
        clients = hr.admin.clients()
        found = hr.admin.workers() if clients else []
    workers = Counter(worker.client_id for worker in found)
    silent = Counter(worker.client_id for worker in found if worker.is_silent)
    if session.is_json:
        output.json_document(
            [
                {
                    **msgspec.structs.asdict(info),
                    "workers": workers[info.id],
                    "silent_workers": silent[info.id],
                }
                for info in clients
            ]
        )
        return
    output.table(
        ["CLIENT", "ID", "HOST", "PID", "WORKERS", "STARTED", "SEEN"],
        [
            [
                info.name,
                info.id,
                info.host,
                info.pid,
                _format_workers(workers[info.id], silent[info.id]),
                output.format_time(info.started_at),
                output.format_time(info.seen_at),
            ]
            for info in clients
        ],
    )
    if not clients:
        output.note("there are no clients with workers")


@command(app)
def workers(
    session: CommandSession,
    queue: Annotated[
        str | None,
        typer.Argument(
            metavar="QUEUE", help="Only workers of this queue.", autocompletion=queue_names
        ),
    ] = None,
) -> None:
    """List workers: where they run, their state and their rate.

    One without a heartbeat for 15 seconds is silent: it was killed, or cannot reach the store.
    """
    with session.open() as hr:
        rows = hr.admin.workers(queue)
        if queue is not None and not rows:
            check_queue_exists(hr, queue)
    if session.is_json:
        output.json_document(rows)
        return
    print_workers(rows)
    if not rows:
        output.note("there are no workers" + (f" of queue {queue!r}" if queue else ""))


def _format_workers(count: int, silent: int) -> str:
    """How many workers a client has, and how many of these are silent."""
    return f"{count}, {'all' if silent == count else silent} silent" if silent else str(count)
