"""Works on a queue with a real worker, and records each item."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import headrace
from headrace.testing.audit_log import AuditLog


def main(arguments: dict[str, Any]) -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    name = arguments["name"]
    with (
        AuditLog(Path(arguments["log_path"])) as log,
        headrace.connect(arguments["url"]) as hr,
    ):

        def handle(item: headrace.Item) -> None:
            log.intend(f"{name}/{item.id}/{item.attempts}", item=item.id)

        hr.start_worker("q", handle)
        log.intend(f"{name}/ready")
        over.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
