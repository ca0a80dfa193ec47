"""From a slot that is freed to the handler that gets it, against from push to handler.

Both one at a time, to a worker in another process that is idle.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.cases.channel_rates import STORES, place_of, players_of
from bench.cases.limit_rates import KIND as LIMITS
from bench.cases.limit_rates import under_limits
from bench.cases.queue_latency import GAP_SECONDS, PATIENCE_SECONDS, WARM_ITEMS
from bench.context import Contender, Lab
from bench.launcher import Kind, Process
from bench.measure import percentile

PLAIN = Kind("bench.queue_ours")
Exchange = Callable[[Process, Process], float]


def contenders(lab: Lab) -> Iterator[Contender]:
    for store in STORES:
        needs = ("postgres",) if store == "postgres" else ()
        yield from lab.offer(f"pushed {store}", _pushed, *needs, store=store)
        yield from lab.offer(f"freed {store}", _freed, *needs, store=store)


def _pushed(lab: Lab, key: str, *_: Any, store: str) -> Contender:
    return _contender(lab, key, store, PLAIN, _push_one, "push to handler, no limits")


def _freed(lab: Lab, key: str, *_: Any, store: str) -> Contender:
    return _contender(lab, key, store, LIMITS, _free_one, "slot freed to handler, limit 1")


def _contender(
    lab: Lab, key: str, store: str, kind: Kind, exchange: Exchange, words: str
) -> Contender:
    where, facts = place_of(lab, store, key.replace(" ", "_"))
    sender, worker = players_of(lab, key, where, 2, kind)
    if kind is LIMITS:
        facts = under_limits(facts)
        sender.ask("bind", limit=1)
    worker.ask("serve")
    items = -(-lab.settings.latencies // lab.settings.rounds)
    everything: list[float] = []

    def sample(turn: int) -> dict[str, float]:
        for _ in range(WARM_ITEMS):
            exchange(sender, worker)
        found = [exchange(sender, worker) for _ in range(items)]
        everything.extend(found)
        return {"p50": percentile(found, 50), "p95": percentile(found, 95)}

    def note() -> str:
        middle, high = percentile(everything, 50), percentile(everything, 95)
        return f"n={len(everything)}: p50 {middle:.2f}, p95 {high:.2f} ms"

    return Contender(key, f"{STORES[store]}, {words}", "ms", facts, sample, note=note)


def _push_one(sender: Process, worker: Process) -> float:
    """Milliseconds from push to handler."""
    _gap()
    sender.ask("send", warm=False)
    return _heard(worker)


def _free_one(sender: Process, worker: Process) -> float:
    """Milliseconds from the completion that frees the slot to the handler that gets it."""
    sender.ask("hold", warm=False)
    # The worker has found meanwhile that no slot is free.
    _gap()
    waited: int = sender.ask("free")
    return _heard(worker) - waited / 1e6


def _gap() -> None:
    time.sleep(random.uniform(*GAP_SECONDS))


def _heard(worker: Process) -> float:
    return float(json.loads(worker.lines.next(PATIENCE_SECONDS))["latency"]) / 1e6
