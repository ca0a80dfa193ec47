"""``headrace maintain``: collect old records and tidy up, once."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.model.collecting import MaintenanceReport


def register(app: typer.Typer) -> None:
    """Put the command into place."""
    command(app)(maintain)


def maintain(
    session: Session,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Now, although it was done a moment ago.")
    ] = False,
) -> None:
    """Collect old records, and remove live procs and keys that have run out."""
    with session.open() as hr:
        report = hr.maintain(force=force)
    if session.is_json:
        output.document(report)
    elif report.is_skipped:
        output.note("skipped: it is being done, or was a moment ago; --force does it anyway")
    else:
        _print(report)


def _print(report: MaintenanceReport) -> None:
    output.table(
        ["TOPIC", "COLLECTED", "FROM", "TO", "OVERTAKEN"],
        [
            [
                collected.topic,
                collected.first_seq - collected.from_seq,
                f":{collected.from_seq}",
                f":{collected.first_seq - 1}",
                ", ".join(collected.overtaken),
            ]
            for collected in report.collected
        ],
    )
    for name in report.expired_procs:
        output.note(f"live proc {name!r} was not used any more and is removed")
    for queue in report.tended:
        output.note(f"queue {queue.queue!r}: {queue.removed} old things are removed")
    for client in report.forgotten_clients:
        output.note(f"client {client!r} was silent for a day and is forgotten")
    if report.forgotten_locks:
        output.note(f"{report.forgotten_locks} locks that nobody wants are forgotten")
    if report.dropped_stages:
        output.note(f"{report.dropped_stages} stages that nobody published are removed")
    if not report.collected:
        output.note("there was nothing to collect")
