"""``headrace queue set``: change settings while the queue's workers are stopped."""

from __future__ import annotations

from headrace.cli import output
from headrace.cli.command import CommandSession
from headrace.cli.queue_views import format_setting
from headrace.client.workflows.settings_update import UpdateReport
from headrace.core.queue_settings import QueueOptions
from headrace.core.views import WorkerInfo
from headrace.model.queues.settings import QueueSettings

TIME_LIMIT_SECONDS = 10.0


def update_settings(
    session: CommandSession, name: str, settings: QueueOptions, *, time_limit: float, strict: bool
) -> None:
    """Change a queue's settings, and print which workers stopped for it."""
    with session.open() as hr:
        [before] = hr.queues.info(name)
        if before.workers:
            workers = output.format_count(len(before.workers), "worker")
            output.note(f"waiting up to {time_limit:g} s for {workers} to stop")
        report = hr.queue(name).update(time_limit=time_limit, strict=strict, **settings)
    if session.is_json:
        output.json_document(report)
    else:
        _print(before.settings, report, list(settings))
    _print_summary(report)


def _print(before: QueueSettings, report: UpdateReport, options: list[str]) -> None:
    after = report.queue.settings
    rows = [(name, format_setting(before, name), format_setting(after, name)) for name in options]
    output.table(["OPTION", "BEFORE", "NOW"], rows)
    answers = [
        *((worker, "stopped") for worker in report.stopped),
        *((worker, "did not answer") for worker in report.unanswered),
    ]
    if answers:
        output.line("")
    output.table(
        ["WORKER", "CLIENT", "HOST", "PID", "ANSWER"], [_row(*answer) for answer in answers]
    )


def _row(worker: WorkerInfo, answer: str) -> list[object]:
    return [worker.id, worker.client, worker.host, worker.pid, answer]


def _print_summary(report: UpdateReport) -> None:
    info = report.queue
    if not report.is_changed:
        output.note(f"queue {info.name!r} has these settings already")
        return
    message = f"the settings of queue {info.name!r} are at version {info.version}"
    if report.stopped or report.unanswered:
        stopped = output.format_count(len(report.stopped), "worker")
        message += f", after {report.waited:.1f} s; {stopped} stopped for it"
    output.note(message)
    if report.unanswered:
        output.note(
            f"{output.format_count(len(report.unanswered), 'worker')} did not stop in time and "
            "cannot claim until they load the new settings"
        )
