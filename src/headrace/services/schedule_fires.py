"""Fires due schedules: what workers, nodes and ``headrace schedule run`` have in common."""

from __future__ import annotations

import logging
from time import monotonic

from headrace.contract.store import Store
from headrace.model.schedules.actions import firing_id
from headrace.model.schedules.schedule import Firing

MAX_SLEEP_SECONDS = 60.0
BUSY_SECONDS = 0.05
"""When to look again at schedules that another process is firing."""
BATCH = 100
"""How many due times are fired in one transaction."""
ZONES_SECONDS = 86_400.0
"""How often newer time zone data is looked for, in a process that goes on."""
_log = logging.getLogger("headrace.schedules")


class ScheduleFiring:
    """The step of a loop that fires schedules. Any number of them may run, anywhere."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._zones_due = 0.0
        self.firings = 0
        """How many due times were fired."""

    def fire(self) -> float:
        """Fire what is due; returns the seconds until something may be due, 60 at most."""
        schedules, run = self._store.schedules, self._store.run
        if monotonic() >= self._zones_due:
            moved = run(schedules.update_zones())
            self._zones_due = monotonic() + ZONES_SECONDS
            if moved:
                _log.info("the due times of %d schedules follow newer time zone data", moved)
        while True:
            ms = run(schedules.until_due())
            if ms is None or ms > 0:
                return MAX_SLEEP_SECONDS if ms is None else min(ms / 1000, MAX_SLEEP_SECONDS)
            firings = run(schedules.fire(BATCH))
            for firing in firings:
                self._note(firing)
            if not firings:
                return BUSY_SECONDS

    def _note(self, firing: Firing) -> None:
        name = firing_id(firing.schedule, firing.due)
        extra = {"action": "schedules.fire", "schedule": firing.schedule}
        match firing.outcome:
            case "fired":
                self.firings += 1
                _log.debug("%s fired", name, extra=extra)
            case "skipped":
                _log.debug("%s skipped: an earlier one still waits or runs", name, extra=extra)
            case "failed":
                _log.warning("%s failed: %s", name, firing.error, extra=extra)
