"""Fires schedules until it is killed."""

import itertools
import json
import sys
import time
from pathlib import Path

import headrace
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog
from headrace.testing.contract.queue_base import StoreOps

BATCH = 7
"""So few that several processes have something to fire."""
MAX_SLEEP_SECONDS = 0.02


def main(url: str, log_path: str, name: str) -> None:
    is_orphan = orphanhood()
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        schedules = StoreOps(hr).schedules
        for number in itertools.count():
            if is_orphan():
                return
            call = f"{name}-{number}"
            log.intend(call)
            firings = schedules.fire(BATCH)
            log.outcome(call, fired=[[firing.schedule, firing.due] for firing in firings])
            wait = schedules.until_due() or 0
            time.sleep(min(max(wait, 0) / 1000, MAX_SLEEP_SECONDS))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
