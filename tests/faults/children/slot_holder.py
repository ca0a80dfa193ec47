"""Acquires a slot, reports it, and holds the slot until it is killed."""

import json
import sys
import time
from pathlib import Path

import headrace
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog


def main(url: str, log_path: str, name: str, slot: dict[str, str], lease: float) -> None:
    is_orphan = orphanhood()
    with (
        AuditLog(Path(log_path)) as log,
        headrace.connect(url) as hr,
        hr.slots(slot, lease=lease),
    ):
        log.intend(name)
        while not is_orphan():
            time.sleep(0.01)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
