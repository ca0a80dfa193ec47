"""How queues are shown to people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.cli import output
from headrace.cli.options import none_of
from headrace.core.looking import QueueReport, QueueStats, WorkerInfo
from headrace.model.queues import QueueInfo, QueueSettings

WORKER_TITLES = (
    *("WORKER", "QUEUE", "CLIENT", "HOST", "PID", "STATE"),
    *("BUSY", "DONE", "FAILED", "RATE", "SEEN", "ERROR"),
)


def print_list(rows: Sequence[tuple[QueueInfo, QueueStats]]) -> None:
    """Queues, one on a line."""
    output.table(
        ["QUEUE", "PENDING", "PLANNED", "ACTIVE", "DEAD", "OLDEST DUE", "PAUSED"],
        [
            [
                info.name,
                stats.pending,
                stats.planned,
                stats.active,
                stats.dead,
                seconds(stats.oldest_due),
                paused(info),
            ]
            for info, stats in rows
        ],
    )


def print_stats(found: Sequence[QueueStats]) -> None:
    """The numbers of queues, one on a line."""
    names = [
        name
        for name in QueueStats.__struct_fields__
        if name not in ("queue", "oldest_due", "is_computed")
    ]
    output.table(
        ["QUEUE", *(name.upper() for name in names), "OLDEST DUE"],
        [
            [one.queue, *(getattr(one, name) for name in names), seconds(one.oldest_due)]
            for one in found
        ],
    )


def print_report(report: QueueReport) -> None:
    """All of a queue."""
    stats = report.stats
    backlog = f"{stats.pending:,} pending, {stats.planned:,} planned, {stats.active:,} active"
    output.fields(
        [
            ("queue", report.name),
            ("created", report.created_at),
            ("paused", paused(report)),
            ("held", "for an update of its settings" if report.is_held else "no"),
            ("backlog", backlog),
            ("oldest due", seconds(report.oldest_due)),
            ("dead", stats.dead),
            ("completed", stats.completed),
            ("errors", stats.errors),
            ("rate", _rate(report.rate)),
            ("wait", seconds(report.wait)),
            ("clears in", seconds(report.clears_in)),
            ("workers", _workers(report)),
            ("version", report.version),
        ]
    )
    output.line("")
    print_settings(report.settings)
    workers = [*report.workers, *report.silent_workers]
    if workers:
        output.line("")
        print_workers(workers)


def print_settings(settings: QueueSettings, *, is_json: bool = False) -> None:
    """Settings, one on a line, in the form that ``queue set`` takes."""
    if is_json:
        output.document(settings)
        return
    rows = [(name, option_text(settings, name)) for name in settings.__struct_fields__]
    output.table(["OPTION", "VALUE"], rows)


def option_text(settings: QueueSettings, option: str) -> str:
    """The value of a setting, as ``queue set`` takes it."""
    value = msgspec.to_builtins(getattr(settings, option))
    if value is None:
        return none_of(option)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    return output.compact(value) if isinstance(value, dict) else output.text(value)


def print_workers(workers: Sequence[WorkerInfo]) -> None:
    """Workers, one on a line."""
    output.table(
        WORKER_TITLES,
        [
            [
                worker.id,
                worker.queue,
                worker.client,
                worker.host,
                worker.pid,
                worker_state(worker),
                worker.busy,
                worker.done,
                worker.failed,
                round(worker.rate, 2),
                worker.seen_at,
                worker.error,
            ]
            for worker in workers
        ],
    )


def worker_state(worker: WorkerInfo) -> str:
    """What a worker does, and what it shall do if that is something else."""
    if worker.current == worker.desired:
        return worker.current
    return f"{worker.current}, shall be {worker.desired}"


def paused(info: QueueInfo | QueueReport) -> str:
    """Whether a queue is paused, and by whom."""
    if not info.is_paused:
        return "no"
    return f"by {info.paused_by}" if info.paused_by else "yes"


def seconds(value: float | None) -> str | None:
    """A time for people."""
    return None if value is None else f"{value:,.3f}".rstrip("0").rstrip(".") + " s"


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}/s"


def _workers(report: QueueReport) -> str:
    there, silent = len(report.workers), len(report.silent_workers)
    said = f"{there} at work, {report.worker_rate:,.1f}/s" if there else "none at work"
    return f"{said}; {silent} not heard of lately" if silent else said
