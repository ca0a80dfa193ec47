"""``headrace schedule run``: fire schedules until a signal arrives."""

from __future__ import annotations

from headrace.cli import output
from headrace.cli.command import CommandSession
from headrace.cli.signals import next_event, signal_events
from headrace.node.start_pipe import report_start
from headrace.worker.schedules import ScheduleService

STOP_SECONDS = 10.0


def run(session: CommandSession) -> None:
    """Fire schedules until SIGTERM or Ctrl-C, where neither a worker nor a node runs.

    Any number of such processes may run: each due time is fired once.
    """
    with session.open() as hr, signal_events() as events:
        # A store without schedules is refused here.
        hr.schedules.list(limit=1)
        service = ScheduleService(hr._store)  # noqa: SLF001  # a service is part of its client
        service.start()
        report_start()
        output.note("firing schedules")
        try:
            next_event(events)
        finally:
            service.end()
            service.join(STOP_SECONDS)
        output.note(f"stopped: {output.format_count(service.firings, 'firing')}")
