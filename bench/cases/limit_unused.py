"""How much of a limit nobody uses, while there is always more to do than it lets through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.cases.channel_rates import STORES, place_of, players_of
from bench.cases.limit_rates import KIND, under_limits
from bench.context import Contender, Lab
from bench.limit_ours import HANDLER_SECONDS, SETTLING_SECONDS

LIMIT = 4
WORKERS = 2
CHANNELS = 10
LEAST_SECONDS = 1.0
SPARE = 1.5


def contenders(lab: Lab) -> Iterator[Contender]:
    for store in STORES:
        needs = ("postgres",) if store == "postgres" else ()
        yield from lab.offer(f"unused {store}", _contender, *needs, store=store)


def _contender(lab: Lab, key: str, *_: Any, store: str) -> Contender:
    where, facts = place_of(lab, store, "unused")
    workers = players_of(lab, key, where, WORKERS, KIND)
    workers[0].ask("bind", limit=LIMIT)
    workers[0].ask("play", channels=CHANNELS)
    seconds = max(LEAST_SECONDS, 2 * lab.settings.seconds)
    enough = int(SPARE * LIMIT * (seconds + 2 * SETTLING_SECONDS) / HANDLER_SECONDS)
    waiting = 0

    def sample(turn: int) -> dict[str, float]:
        nonlocal waiting
        workers[0].ask("fill", count=enough - waiting)
        for worker in workers:
            # Each could do all of it, so it is only the limit that binds.
            worker.tell("work", concurrency=LIMIT, seconds=seconds)
        answers = [worker.hear() for worker in workers]
        waiting = workers[0].ask("waiting")
        if not waiting:
            raise RuntimeError("the queue ran empty")
        return {
            "unused": 100 * _unused(answers, "slots"),
            "without a handler": 100 * _unused(answers, "handlers"),
        }

    words = f"limit {LIMIT}, {WORKERS} workers, handlers of {HANDLER_SECONDS * 1000:.0f} ms"
    return Contender(key, f"{STORES[store]}, {words}", "%", under_limits(facts), sample)


def _unused(answers: list[dict[str, Any]], what: str) -> float:
    """The part of the limit that was free of this, while all worked."""
    start = max(answer["start"] for answer in answers)
    end = min(answer["end"] for answer in answers)
    spans = [span for answer in answers for span in answer[what]]
    used = sum(max(0, min(last, end) - max(first, start)) for first, last in spans)
    return 1 - used / (LIMIT * (end - start))
