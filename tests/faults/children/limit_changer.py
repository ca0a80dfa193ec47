"""Changes a limit repeatedly, and records between which moments it had which number."""

import itertools
import json
import random
import sys
import time
from pathlib import Path

import headrace
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog


def main(url: str, log_path: str, name: str, rule: str, limits: list[int]) -> None:
    is_over = orphanhood()
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        for number in itertools.count():
            if is_over():
                return
            limit = random.choice(limits)
            log.intend(f"{name}-{number}", sent=time.monotonic_ns(), limit=limit)
            hr.limits.update(rule, limit)
            log.outcome(f"{name}-{number}", known=time.monotonic_ns())
            # Long enough that some claims are made while the number is known, even on a slow machine.
            time.sleep(random.choice([0.02, 0.2, 0.5]))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
