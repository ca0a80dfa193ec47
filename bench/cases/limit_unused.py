"""How much of a limit nobody uses, while there is always more to do than it lets through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.cases.channel_rates import STORES, place_of, players_of
from bench.cases.limit_rates import KIND, under_limits
from bench.lab import Contender, Lab
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
    watcher, *workers = players_of(lab, key, where, 1 + WORKERS, KIND)
    watcher.ask("bind", limit=LIMIT)
    watcher.ask("play", channels=CHANNELS)
    seconds = max(LEAST_SECONDS, 2 * lab.settings.seconds)
    enough = int(SPARE * LIMIT * (seconds + 2 * SETTLING_SECONDS) / HANDLER_SECONDS)
    waiting = 0

    def sample(turn: int) -> dict[str, float]:
        nonlocal waiting
        watcher.ask("fill", count=enough - waiting)
        for worker in workers:
            # Each could do all of it, so it is only the limit that binds.
            worker.tell("work", concurrency=LIMIT, seconds=seconds)
        watched = watcher.ask("watch", limit=LIMIT, seconds=seconds)
        unused = _unused([worker.hear() for worker in workers])
        waiting = int(watched["waiting"])
        if not waiting:
            raise RuntimeError("the queue ran empty")
        return {"unused": 100 * unused, "free": 100 * watched["free"]}

    words = f"limit {LIMIT}, {WORKERS} workers, handlers of {HANDLER_SECONDS * 1000:.0f} ms"
    return Contender(key, f"{STORES[store]}, {words}", "%", under_limits(facts), sample)


def _unused(answers: list[dict[str, Any]]) -> float:
    """The part of the limit that no handler used, while all worked."""
    start = max(answer["start"] for answer in answers)
    end = min(answer["end"] for answer in answers)
    spans = [span for answer in answers for span in answer["spans"]]
    used = sum(max(0, min(last, end) - max(first, start)) for first, last in spans)
    unused = 1 - used / (LIMIT * (end - start))
    if unused < 0:
        raise RuntimeError(f"the limit was exceeded: {1 - unused:.3f} of it was used")
    return unused
