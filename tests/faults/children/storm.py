"""Keeps some processes at work and kills one after another, at any moment of the work."""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from faults.children import committer, consumer, hand, producer, ruler, runner, worker
from faults.children.forks import fork, kill
from faults.waiting import until

PROGRAMS = {
    "committer": committer.main,
    "worker": worker.main,
    "producer": producer.main,
    "consumer": consumer.main,
    "hand": hand.main,
    "runner": runner.main,
    "ruler": ruler.main,
}


class Victim:
    """One life of a process; it is spared until it has written some lines."""

    def __init__(
        self, program: str, name: str, ledger: Path, rng: random.Random, **rest: Any
    ) -> None:
        self._ledger = ledger
        # A first outcome at the least: everybody gets something done.
        self._lines = rng.randint(3, 15)
        ledger.touch()
        seed = rng.getrandbits(32)

        def live() -> None:
            random.seed(seed)
            PROGRAMS[program](name=name, ledger=str(ledger), **rest)

        self.pid = fork(live)

    def is_due(self) -> bool:
        return self._ledger.read_bytes().count(b"\n") >= self._lines


def main(
    ledger: str, name: str, seed: int, kills: int, victims: list[str], places: list[dict[str, Any]]
) -> None:
    """At each of ``places`` there is always a victim of its kind, with these arguments."""
    rng = random.Random(seed)
    lives = 0

    def start(place: int) -> Victim:
        nonlocal lives
        lives += 1
        path = Path(f"{ledger}.{lives}")
        return Victim(victims[place], f"life{lives}", path, rng, **places[place])

    working = {place: start(place) for place in range(len(places))}
    try:
        for _ in range(kills):
            due = until(lambda: [p for p, v in working.items() if v.is_due()], "somebody at work")
            place = rng.choice(due)
            # Not to wait for anything: this decides which moment of the work it is.
            time.sleep(rng.uniform(0, 0.01))
            kill(working.pop(place).pid)
            working[place] = start(place)
        for victim in working.values():
            until(victim.is_due, "everybody at work")
    finally:
        while working:
            kill(working.popitem()[1].pid)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
