"""From push to handler: one item at a time, to a worker in another process that is idle."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

from bench.contenders import Place
from bench.context import Contender, Lab
from bench.launcher import Process
from bench.measure import percentile

GAP_SECONDS = (0.01, 0.03)
PATIENCE_SECONDS = 15.0
WARM_ITEMS = 5

WITH_GOALS = ("headrace", "headrace-sqlite", "pgqueuer", "redis")
# Some of these poll and take long, so they get fewer items.
OTHERS = ("procrastinate", "huey", "dramatiq", "taskiq", "celery")
FEWER = 5


def contenders(lab: Lab) -> Iterator[Contender]:
    each_round = -(-lab.settings.latencies // lab.settings.rounds)
    for name in WITH_GOALS:
        yield from lab.offer(f"latency {name}", _contender, name=name, items=each_round)
    for name in OTHERS:
        few = max(1, each_round // FEWER)
        yield from lab.offer(f"latency {name}", _contender, name=name, items=few)


# lab.offer takes the names of servers; a place asks for its own.
def _contender(lab: Lab, key: str, *, name: str, items: int) -> Contender:
    place = Place(lab, name, "latency")
    sender, worker = place.player(), place.player()
    worker.ask("serve")
    everything: list[float] = []

    def sample(turn: int) -> dict[str, float]:
        for _ in range(WARM_ITEMS):
            exchange(sender, worker, is_warm=True)
        found = [exchange(sender, worker, is_warm=False) for _ in range(items)]
        everything.extend(found)
        return {"p50": percentile(found, 50), "p95": percentile(found, 95)}

    def note() -> str:
        middle, high = percentile(everything, 50), percentile(everything, 95)
        return f"n={len(everything)}: p50 {middle:.2f}, p95 {high:.2f} ms"

    title = f"{place.title}, push to handler"
    return Contender(key, title, "ms", place.facts(sender), sample, note=note)


def exchange(sender: Process, worker: Process, *, is_warm: bool) -> float:
    """Milliseconds from push to handler. The next item waits until this one arrived."""
    time.sleep(random.uniform(*GAP_SECONDS))
    sender.ask("send", warm=is_warm)
    answer = json.loads(worker.lines.next(PATIENCE_SECONDS))
    if answer.get("warm") is not is_warm:
        raise RuntimeError("the handler got another item than the one just pushed")
    return float(answer["latency"]) / 1e6
