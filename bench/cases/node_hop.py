"""Through the node, and with the store opened directly: the same calls of the same client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from bench import nodes
from bench.bodies import slices
from bench.cases import commit, read
from bench.cases.queue_latency import WARM_ITEMS, exchange
from bench.context import Contender, Facts, Lab
from bench.launcher import Kind, Process, playing
from bench.measure import percentile
from bench.nodes import STORES

import headrace

KIND = Kind("bench.node_ours")
WORKER = Kind("bench.queue_ours")
WAYS = {"node": "through the node", "direct": "direct"}

Build = Callable[[Lab, str, str, str, Facts], Contender]
"""Makes a contender from its key, its title, and a URL with its facts."""


def workers(lab: Lab) -> Iterator[Contender]:
    yield from _both_ways(lab, "no-op", _worker)


def commits(lab: Lab) -> Iterator[Contender]:
    yield from _both_ways(lab, "commit-1000", _commits)


def reads(lab: Lab) -> Iterator[Contender]:
    yield from _both_ways(lab, "read-1000", read.reading)


def pushes(lab: Lab) -> Iterator[Contender]:
    yield from _both_ways(lab, "push", _pushes)


def claims(lab: Lab) -> Iterator[Contender]:
    yield from _both_ways(lab, "claim", _claims)


def handlers(lab: Lab) -> Iterator[Contender]:
    yield from _both_ways(lab, "handler", _handlers)


def _both_ways(lab: Lab, name: str, build: Build) -> Iterator[Contender]:
    for store in STORES:
        for way in WAYS:
            options = {"store": store, "way": way, "build": build}
            yield from lab.offer(
                f"{name} {way} {store}", _contender, *nodes.needs(store), **options
            )


def _contender(lab: Lab, key: str, *_: Any, store: str, way: str, build: Build) -> Contender:
    url, facts = nodes.place_of(lab, store, key)
    if way == "node":
        url, facts = nodes.node(lab, key, url).url, nodes.node_facts(facts)
    return build(lab, key, f"{STORES[store]} {WAYS[way]}", url, facts)


def _commits(lab: Lab, key: str, title: str, url: str, facts: Facts) -> Contender:
    return commit.committing(lab, key, title, url, facts, 1000)


def _worker(lab: Lab, key: str, title: str, url: str, facts: Facts) -> Contender:
    player = _player(lab, key, url)

    def sample(turn: int) -> dict[str, float]:
        figures: dict[str, float] = player.ask("work_rate", seconds=lab.settings.seconds)
        return figures

    return Contender(key, f"{title}, no-op items, one worker", "items/s", facts, sample)


def _pushes(lab: Lab, key: str, title: str, url: str, facts: Facts) -> Contender:
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)
    singles = slices(lab.bodies, 1)
    each_round = -(-lab.settings.latencies // lab.settings.rounds)

    def push() -> float:
        body = next(singles)[0]
        start = time.perf_counter()
        hr.push("orders", body)
        return (time.perf_counter() - start) * 1000

    def sample(turn: int) -> dict[str, float]:
        for _ in range(WARM_ITEMS):
            push()
        found = [push() for _ in range(each_round)]
        return {"p50": percentile(found, 50), "p95": percentile(found, 95)}

    return Contender(key, f"{title}, one push at a time", "ms", facts, sample)


def _claims(lab: Lab, key: str, title: str, url: str, facts: Facts) -> Contender:
    return _latency(lab, key, f"{title}, push to a waiting claim", url, facts, KIND)


def _handlers(lab: Lab, key: str, title: str, url: str, facts: Facts) -> Contender:
    return _latency(lab, key, f"{title}, push to a worker's handler", url, facts, WORKER)


def _latency(lab: Lab, key: str, title: str, url: str, facts: Facts, kind: Kind) -> Contender:
    sender = _player(lab, f"{key}-sender", url, kind)
    receiver = _player(lab, f"{key}-receiver", url, kind)
    receiver.ask("serve")
    each_round = -(-lab.settings.latencies // lab.settings.rounds)

    def sample(turn: int) -> dict[str, float]:
        for _ in range(WARM_ITEMS):
            exchange(sender, receiver, is_warm=True)
        found = [exchange(sender, receiver, is_warm=False) for _ in range(each_round)]
        return {"p50": percentile(found, 50), "p95": percentile(found, 95)}

    return Contender(key, title, "ms", facts, sample)


def _player(lab: Lab, name: str, url: str, kind: Kind = KIND) -> Process:
    return lab.phase.enter_context(playing(lab, name.replace(" ", "-"), kind, url))
