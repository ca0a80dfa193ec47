"""Changes a limit again and again, and says between which moments it was which number."""

import itertools
import json
import random
import sys
import time
from pathlib import Path

import headrace
from faults.waiting import orphanhood
from headrace.testing.ledger import Ledger


def main(url: str, ledger: str, name: str, rule: str, limits: list[int]) -> None:
    is_over = orphanhood()
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        for number in itertools.count():
            if is_over():
                return
            limit = random.choice(limits)
            book.intend(f"{name}-{number}", sent=time.monotonic_ns(), limit=limit)
            hr.change_limit(rule, limit)
            book.outcome(f"{name}-{number}", known=time.monotonic_ns())
            # Long enough that some claims are made while the number is known, also where all is slow.
            time.sleep(random.choice([0.02, 0.2, 0.5]))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
