"""What ``headrace queue set`` does: new settings while the queue's workers stand still."""

from __future__ import annotations

from headrace.cli import output
from headrace.cli.command import Session
from headrace.cli.queue_views import option_text
from headrace.client.updating import UpdateReport
from headrace.core.looking import WorkerInfo
from headrace.core.queue_settings import Settings
from headrace.model.queues import QueueSettings

TIME_LIMIT = 10.0


def update(
    session: Session, name: str, settings: Settings, *, time_limit: float, strict: bool
) -> None:
    """Change a queue's settings, and tell who stopped for it and who did not."""
    with session.open() as hr:
        [before] = hr.info(name)
        if before.workers:
            workers = output.counted(len(before.workers), "worker")
            output.note(f"waiting up to {time_limit:g} s for {workers} to stop")
        report = hr.update(name, time_limit=time_limit, strict=strict, **settings)
    if session.is_json:
        output.document(report)
    else:
        _print(before.settings, report, list(settings))
    _summarise(report)


def _print(before: QueueSettings, report: UpdateReport, options: list[str]) -> None:
    after = report.queue.settings
    rows = [(name, option_text(before, name), option_text(after, name)) for name in options]
    output.table(["OPTION", "BEFORE", "NOW"], rows)
    answers = [
        *((worker, "stopped") for worker in report.stopped),
        *((worker, "did not answer") for worker in report.unanswered),
    ]
    if answers:
        output.line("")
    output.table(["WORKER", "CLIENT", "HOST", "PID", "ANSWER"], [_row(*one) for one in answers])


def _row(worker: WorkerInfo, answer: str) -> list[object]:
    return [worker.id, worker.client, worker.host, worker.pid, answer]


def _summarise(report: UpdateReport) -> None:
    info = report.queue
    if not report.is_changed:
        output.note(f"queue {info.name!r} has these settings already")
        return
    said = f"queue {info.name!r} is at version {info.version}"
    if report.stopped or report.unanswered:
        stopped = output.counted(len(report.stopped), "worker")
        said += f", after {report.waited:.1f} s; {stopped} stopped for it"
    output.note(said)
    if report.unanswered:
        output.note(
            f"{output.counted(len(report.unanswered), 'worker')} did not stop in time: no more "
            "items go there until the new settings are known there"
        )
