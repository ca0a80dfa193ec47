"""What a node costs that nobody uses: CPU of its process and of its backends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import nodes
from bench.cases.queue_idle import Watch, Watched
from bench.context import Contender, Lab
from bench.measure import PostgresMeter
from bench.nodes import STORES


def contenders(lab: Lab) -> Iterator[Contender]:
    watch = Watch(lab.settings.idle_seconds)
    for store in STORES:
        yield from lab.offer(
            f"idle {store}", _contender, *nodes.needs(store), store=store, watch=watch
        )


def _contender(lab: Lab, key: str, *_: Any, store: str, watch: Watch) -> Contender:
    url, facts = nodes.place_of(lab, store, key)
    meter = None
    if store == "postgres":
        meter = PostgresMeter(url)
        lab.phase.callback(meter.close)
    watch.add(key, Watched(nodes.node(lab, key, url).pid, meter))

    def sample(turn: int) -> dict[str, float]:
        return {"percent": watch.percent(turn, key)}

    title = f"node on {STORES[store]}, idle"
    return Contender(key, title, "% of a core", nodes.node_facts(facts), sample)
