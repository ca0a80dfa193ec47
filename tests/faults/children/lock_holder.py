"""Acquires a lock, reports its number, and holds the lock until it is killed."""

import json
import sys
import time
from pathlib import Path

import headrace
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog


def main(url: str, log_path: str, name: str, lock: dict[str, str], lease: float) -> None:
    is_orphan = orphanhood()
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        log.intend(name)
        with hr.lock(lock, lease=lease, wait=60) as held:
            log.outcome(name, token=held.token)
            while not is_orphan():
                time.sleep(0.01)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
