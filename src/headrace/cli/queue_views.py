"""How queues are shown to people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.cli import output
from headrace.cli.parse_settings import none_word
from headrace.core.views import QueueReport, QueueStats, WorkerInfo
from headrace.model.queues.settings import QueueInfo, QueueSettings

WORKER_TITLES = (
    *("WORKER", "QUEUE", "CLIENT", "HOST", "PID", "STATE"),
    *("BUSY", "DONE", "FAILED", "RATE", "SEEN", "ERROR"),
)


def print_list(rows: Sequence[tuple[QueueInfo, QueueStats]]) -> None:
    """Print queues, one per line."""
    output.table(
        ["QUEUE", "PENDING", "PLANNED", "ACTIVE", "DEAD", "OLDEST DUE", "PAUSED"],
        [
            [
                info.name,
                stats.pending,
                stats.planned,
                stats.active,
                stats.dead,
                format_seconds(stats.oldest_due),
                format_paused(info),
            ]
            for info, stats in rows
        ],
    )


def print_stats(rows: Sequence[QueueStats]) -> None:
    """Print the statistics of queues, one per line."""
    names = [
        name
        for name in QueueStats.__struct_fields__
        if name not in ("queue", "oldest_due", "is_computed")
    ]
    output.table(
        ["QUEUE", *(name.upper() for name in names), "OLDEST DUE"],
        [
            [
                stats.queue,
                *(getattr(stats, name) for name in names),
                format_seconds(stats.oldest_due),
            ]
            for stats in rows
        ],
    )


def print_report(report: QueueReport) -> None:
    """Print a queue with its settings and workers."""
    stats = report.stats
    backlog = f"{stats.pending:,} pending, {stats.planned:,} planned, {stats.active:,} active"
    output.fields(
        [
            ("queue", report.name),
            ("created", report.created_at),
            ("paused", format_paused(report)),
            ("frozen", "for an update of its settings" if report.is_frozen else "no"),
            ("backlog", backlog),
            ("oldest due", format_seconds(report.oldest_due)),
            ("dead", stats.dead),
            ("completed", stats.completed),
            ("errors", stats.errors),
            ("rate", _format_rate(report.rate)),
            ("wait", format_seconds(report.wait)),
            ("clears in", format_seconds(report.clears_in)),
            ("workers", _format_workers(report)),
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
    """Print settings, one per line, in the form that ``queue set`` accepts."""
    if is_json:
        output.json_document(settings)
        return
    rows = [(name, format_setting(settings, name)) for name in settings.__struct_fields__]
    output.table(["OPTION", "VALUE"], rows)


def format_setting(settings: QueueSettings, option: str) -> str:
    """The value of a setting, in the form that ``queue set`` accepts."""
    value = msgspec.to_builtins(getattr(settings, option))
    if value is None:
        return none_word(option)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    return output.format_json(value) if isinstance(value, dict) else output.format_value(value)


def print_workers(workers: Sequence[WorkerInfo]) -> None:
    """Print workers, one per line."""
    output.table(
        WORKER_TITLES,
        [
            [
                worker.id,
                worker.queue,
                worker.client,
                worker.host,
                worker.pid,
                format_state(worker),
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


def format_state(worker: WorkerInfo) -> str:
    """A worker's current state, and its desired state if that differs; or that it is silent."""
    if worker.is_silent:
        return f"silent for {worker.silent:,.0f} s"
    if worker.current == worker.desired:
        return worker.current
    return f"{worker.current}, should be {worker.desired}"


def format_paused(info: QueueInfo | QueueReport) -> str:
    """Whether a queue is paused, and by whom."""
    if not info.is_paused:
        return "no"
    return f"by {info.paused_by}" if info.paused_by else "yes"


def format_seconds(value: float | None) -> str | None:
    """A duration for people."""
    return None if value is None else f"{value:,.3f}".rstrip("0").rstrip(".") + " s"


def _format_rate(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}/s"


def _format_workers(report: QueueReport) -> str:
    live, silent = len(report.workers), len(report.silent_workers)
    text = f"{live} live, {report.worker_rate:,.1f}/s" if live else "none"
    return f"{text}; {silent} silent" if silent else text
