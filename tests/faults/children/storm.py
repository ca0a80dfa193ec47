"""Keeps some processes running and kills one after another, at any moment of their work."""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from faults.children import (
    committer,
    consumer,
    limit_changer,
    limit_user,
    producer,
    random_worker,
    schedule_firer,
    transactor,
    worker,
)
from faults.children.forks import fork, kill
from faults.polling import until

PROGRAMS = {
    "committer": committer.main,
    "worker": worker.main,
    "producer": producer.main,
    "consumer": consumer.main,
    "random_worker": random_worker.main,
    "limit_user": limit_user.main,
    "limit_changer": limit_changer.main,
    "transactor": transactor.main,
    "schedule_firer": schedule_firer.main,
}


class Victim:
    """One process. It is spared until it has written some lines."""

    def __init__(
        self, program: str, name: str, log_path: Path, rng: random.Random, **rest: Any
    ) -> None:
        self._log_path = log_path
        # At least one outcome: every process gets something done.
        self._lines = rng.randint(3, 15)
        log_path.touch()
        seed = rng.getrandbits(32)

        def live() -> None:
            random.seed(seed)
            PROGRAMS[program](name=name, log_path=str(log_path), **rest)

        self.pid = fork(live)

    def is_due(self) -> bool:
        return self._log_path.read_bytes().count(b"\n") >= self._lines


def main(
    log_path: str,
    name: str,
    seed: int,
    kills: int,
    victims: list[str],
    places: list[dict[str, Any]],
) -> None:
    """At each of ``places`` there is always a victim of its kind, with these arguments."""
    rng = random.Random(seed)
    lives = 0

    def start(place: int) -> Victim:
        nonlocal lives
        lives += 1
        path = Path(f"{log_path}.{lives}")
        return Victim(victims[place], f"life{lives}", path, rng, **places[place])

    working = {place: start(place) for place in range(len(places))}
    try:
        for _ in range(kills):
            due = until(lambda: [p for p, v in working.items() if v.is_due()], "somebody at work")
            place = rng.choice(due)
            # This waits for nothing: it only decides which moment of the work is hit.
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
