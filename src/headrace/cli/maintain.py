"""``headrace maintain``: run maintenance once."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command
from headrace.model.maintenance import MaintenanceReport


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(maintain)


def maintain(
    session: CommandSession,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Run even if maintenance ran a moment ago.")
    ] = False,
) -> None:
    """Remove old records, expired live procs and keys, and maintain queues."""
    with session.open() as hr:
        report = hr.admin.maintain(force=force)
    if session.is_json:
        output.json_document(report)
    elif report.is_skipped:
        output.note("skipped: maintenance is running or ran a moment ago; --force runs it anyway")
    else:
        _print(report)


def _print(report: MaintenanceReport) -> None:
    output.table(
        ["TOPIC", "REMOVED", "FROM", "TO", "OVERTAKEN"],
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
        output.note(f"live proc {name!r} was no longer used and is removed")
    for queue in report.tended:
        output.note(
            f"queue {queue.queue!r}: {queue.expired} leases had expired, {queue.died} items died "
            f"of that, {queue.removed} old rows are removed"
        )
    for client in report.forgotten_clients:
        output.note(f"client {client!r} was silent for a day and is removed")
    if report.forgotten_locks:
        output.note(f"{report.forgotten_locks} unused locks are removed")
    if report.dropped_stages:
        output.note(f"{report.dropped_stages} unpublished stages are removed")
    if not report.collected:
        output.note("there were no records to remove")
