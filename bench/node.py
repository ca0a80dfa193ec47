"""The node against the store itself, FastAPI, Starlette and PipeProc, in one run: ``python -m bench.node --help``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench import ours
from bench.cases import (
    node_callers,
    node_hop,
    node_idle,
    node_json,
    node_load,
    node_streams,
    node_willow,
)
from bench.context import Case, Lab, Settings
from bench.goals import Goal, Value, at_most, faster
from bench.nodes import STORES
from bench.peers import pipeproc
from bench.run import Plan, run


@dataclass(frozen=True)
class NodeSettings(Settings):
    """How long idle nodes are watched."""

    idle_seconds: float = 5.0


STARTERS: dict[str, Callable[[Lab], AbstractContextManager[Any]]] = {
    "postgres": ours.start_postgres,
    "pipeproc": pipeproc.start,
}

PHASES = [
    [Case("cost", node_load.costs)],
    [Case("groups", node_load.groups)],
    [Case("no-op", node_hop.workers)],
    [Case("commit-1000", node_hop.commits), Case("read-1000", node_hop.reads)],
    [Case("push", node_hop.pushes)],
    [Case("claim", node_hop.claims)],
    [Case("handler", node_hop.handlers)],
    [Case("json-100", node_json.contenders)],
    [Case("willow", node_willow.contenders)],
    [Case("callers", node_callers.contenders)],
    [Case("streams", node_streams.contenders)],
    [Case("idle", node_idle.contenders)],
]


def _through(store: str, case: str, words: str, must: float, aim: float) -> Goal:
    title = f"{STORES[store]} {words}, through the node vs direct"
    return faster(title, f"{case} node {store}", f"{case} direct {store}", must, aim)


def _delayed(store: str, case: str, words: str, value: str, must: float, aim: float) -> Goal:
    title = f"{STORES[store]} {words}, through the node vs direct, {value}"
    ours, theirs = (Value(f"{case} {way} {store}", value) for way in ("node", "direct"))
    return at_most(title, ours, theirs, must, aim)


def _grouped(store: str, must: float, aim: float) -> Goal:
    title = f"{STORES[store]} {node_load.GROUP_CLIENTS} clients push, grouped vs each alone"
    return faster(title, f"grouped {store}", f"ungrouped {store}", must, aim)


GOALS = [
    Goal(
        f"server CPU of a push, {node_load.CPU_CLIENTS} clients, FastAPI vs the node",
        Value("cost fastapi", "cpu"), Value("cost node", "cpu"), 2, 2.8,
    ),
    Goal(
        f"server CPU of a push in JSON, {node_load.CPU_CLIENTS} clients, FastAPI vs the node",
        Value("cost fastapi", "cpu"), Value("cost json", "cpu"), 2, 2.8,
    ),
    _grouped("sqlite", 1.8, 2.5),
    _grouped("postgres", 2.5, 4),
    _through("postgres", "no-op", "no-op worker", 0.4, 0.65),
    _through("sqlite", "no-op", "no-op worker", 0.8, 1),
    *(_through(store, "commit-1000", "commit 1000", 0.5, 0.7) for store in STORES),
    *(_through(store, "read-1000", "read 1000", 0.5, 0.7) for store in STORES),
    *(_through(store, "json-100", "claim and settle 100 in JSON", 0.4, 0.6) for store in STORES),
    *(_delayed(store, "push", "lone push", "p50", 2.5, 1.8) for store in STORES),
    *(_delayed(store, "claim", "push to a waiting claim", "p95", 4, 2) for store in STORES),
    *(_delayed(store, "handler", "push to a worker", "p95", 4, 2) for store in STORES),
    *(
        at_most(
            f"{STORES[store]} push, waiting consumer, ack: Willow's API vs the node's own, p50",
            Value(f"willow willow {store}", "p50"), Value(f"willow own {store}", "p50"), 1.5, 1.2,
        )
        for store in STORES
    ),
    faster(
        f"commits of {node_callers.CALLERS} callers, the node vs PipeProc",
        "callers node", "callers pipeproc", 10, 30,
    ),
    Goal(
        f"server CPU of a delivery, {node_streams.STREAMS} streams, Starlette vs the node",
        Value("streams starlette", "cpu"), Value("streams node", "cpu"), 1.3, 1.8,
    ),
    *(
        at_most(f"{STORES[store]} idle node", Value(f"idle {store}", "percent"), None, 1, 0.3)
        ._replace(unit=" %")
        for store in STORES
    ),
]  # fmt: skip

PLAN = Plan(
    name="node",
    title="Headrace's node against the store itself, FastAPI and PipeProc",
    absolute="An idle node's share of a core, %. Less is better.",
    about=__doc__,
    settings=NodeSettings(),
    quick=NodeSettings(rounds=3, seconds=0.25, latencies=90, idle_seconds=2),
    starters=STARTERS,
    phases=PHASES,
    goals=GOALS,
)


if __name__ == "__main__":
    sys.exit(run(PLAN))
