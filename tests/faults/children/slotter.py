"""Acquires a slot, says so, and keeps it for as long as it lives."""

import json
import sys
import time
from pathlib import Path

import headrace
from faults.waiting import orphanhood
from headrace.testing.ledger import Ledger


def main(url: str, ledger: str, name: str, slot: dict[str, str], lease: float) -> None:
    is_orphan = orphanhood()
    with (
        Ledger(Path(ledger)) as book,
        headrace.connect(url) as hr,
        hr.acquire(slot, lease=lease),
    ):
        book.intend(name)
        while not is_orphan():
            time.sleep(0.01)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
