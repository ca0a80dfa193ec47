"""Takes a lock, says by which number, and keeps it for as long as it lives."""

import json
import sys
import time
from pathlib import Path

import headrace
from faults.waiting import orphanhood
from headrace.testing.ledger import Ledger


def main(url: str, ledger: str, name: str, lock: dict[str, str], lease: float) -> None:
    is_orphan = orphanhood()
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        book.intend(name)
        with hr.lock(lock, lease=lease, wait=60) as held:
            book.outcome(name, token=held.token)
            while not is_orphan():
                time.sleep(0.01)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
