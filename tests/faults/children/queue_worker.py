"""Works on a queue with a real worker, and writes each item down."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import headrace
from headrace.testing.ledger import Ledger


def main(arguments: dict[str, Any]) -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    name = arguments["name"]
    with (
        Ledger(Path(arguments["ledger"])) as book,
        headrace.connect(arguments["url"]) as hr,
    ):

        def handle(item: headrace.Item) -> None:
            book.intend(f"{name}/{item.id}/{item.attempts}", item=item.id)

        hr.register_worker("q", handle)
        book.intend(f"{name}/ready")
        over.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
