"""What a worker costs that has nothing to do: CPU of its process and of its backends."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.contenders import Place
from bench.context import Contender, Lab
from bench.measure import PostgresMeter, cpu_seconds_by_thread

NAMES = ("headrace", "headrace-sqlite", "pgqueuer", "procrastinate", "huey")
SETTLED_SECONDS = 2.0


class Watched:
    """One process that is idle, and its backends."""

    def __init__(self, pid: int, meter: PostgresMeter | None) -> None:
        self._pid = pid
        self._meter = meter

    def read(self) -> tuple[dict[str, float], float]:
        backends = self._meter.backend_cpu() if self._meter else 0.0
        return cpu_seconds_by_thread(self._pid), backends


class Watch:
    """All workers are watched together: idle workers do not disturb each other."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._workers: dict[str, Watched] = {}
        self._seen: dict[int, dict[str, float]] = {}

    def add(self, key: str, worker: Watched) -> None:
        self._workers[key] = worker

    def percent(self, turn: int, key: str) -> float:
        if turn not in self._seen:
            self._seen[turn] = self._watch()
        return self._seen[turn][key]

    def _watch(self) -> dict[str, float]:
        time.sleep(SETTLED_SECONDS)
        before = {key: worker.read() for key, worker in self._workers.items()}
        start = time.monotonic()
        time.sleep(self._seconds)
        after = {key: worker.read() for key, worker in self._workers.items()}
        elapsed = time.monotonic() - start
        return {key: _spent(before[key], after[key]) / elapsed * 100 for key in before}


def _spent(before: tuple[dict[str, float], float], after: tuple[dict[str, float], float]) -> float:
    threads = sum(spent - before[0].get(thread, 0.0) for thread, spent in after[0].items())
    return threads + after[1] - before[1]


def contenders(lab: Lab) -> Iterator[Contender]:
    watch = Watch(lab.settings.idle_seconds)
    for name in NAMES:
        yield from lab.offer(f"idle {name}", _contender, name=name, watch=watch)


def _contender(lab: Lab, key: str, *, name: str, watch: Watch) -> Contender:
    place = Place(lab, name, "idle")
    worker = place.player()
    worker.ask("serve")
    meter = None
    if place.where.startswith("postgresql"):
        meter = PostgresMeter(place.where)
        lab.phase.callback(meter.close)
    watch.add(key, Watched(worker.pid, meter))

    def sample(turn: int) -> dict[str, float]:
        return {"percent": watch.percent(turn, key)}

    title = f"{place.title}, idle worker"
    return Contender(key, title, "% of a core", place.facts(worker), sample)
