"""Maintenance in the background: each client that has workers maintains the store."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from headrace.client.workflows.maintenance import INTERVAL, maintenance
from headrace.contract.missing_part import has_part
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.model.maintenance import MaintenanceReport
from headrace.services.loop import Loop


class MaintenanceService:
    """Runs maintenance at an interval, in a thread of its own.

    A round may be slow, and the heartbeat must not wait for it. One client of a store at a time
    does it.
    """

    def __init__(self, store: Store, on_error: Callable[[Exception], None]) -> None:
        self._store = store
        self._on_error = on_error
        self._interval = INTERVAL
        self._loop = Loop("headrace-maintenance", self._run, on_error=self._failed)

    def start(self) -> None:
        if has_part(self._store, "admin"):
            self._loop.start(self._next())

    def end(self) -> None:
        """Begin no further operation."""
        self._loop.end()

    def join(self, timeout: float) -> None:
        """Wait until the operation under way has ended."""
        self._loop.join(timeout)

    def _next(self) -> float:
        return monotonic() + self._interval

    def _run(self) -> float:
        report = self._maintain()
        if report is not None:
            self._interval = min(INTERVAL, report.interval)
        return self._next()

    def _failed(self, error: Exception) -> float:
        self._on_error(error)
        return self._next()

    def _maintain(self) -> MaintenanceReport | None:
        """One round; None if it was ended in the middle."""
        plan = maintenance(self._store, force=False)
        try:
            step = next(plan)
            while not self._loop.is_ended:
                try:
                    answer = None
                    if isinstance(step, Op):
                        answer = self._store.run(step)
                    else:
                        self._loop.pause(step)
                except Exception as error:  # the plan knows which errors are harmless
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as done:
            report: MaintenanceReport = done.value
            return report
        if isinstance(step, Op):
            step.accept()  # it was ended in the middle, on purpose
        return None
