"""Pushes of many independent clients: what one costs the node, and what group commit gains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import nodes
from bench.context import Contender, Lab, Sample
from bench.launcher import Kind, Process, playing
from bench.nodes import STORES, Served

KIND = Kind("bench.node_load")
CPU_CLIENTS = 32
GROUP_CLIENTS = 128
TITLES = {
    "node": "node in memory",
    "json": "node in memory, in JSON",
    "fastapi": "FastAPI in memory",
}


def costs(lab: Lab) -> Iterator[Contender]:
    """In memory, where the server costs most of what a push costs."""
    clients = _clients(lab, "cost")
    for route in TITLES:
        yield from lab.offer(f"cost {route}", _cost, clients=clients, route=route)


def groups(lab: Lab) -> Iterator[Contender]:
    clients = _clients(lab, "groups")
    for store in STORES:
        for is_grouped in (True, False):
            key = f"{'grouped' if is_grouped else 'ungrouped'} {store}"
            options = {"clients": clients, "store": store, "is_grouped": is_grouped}
            yield from lab.offer(key, _group, *nodes.needs(store), **options)


def _clients(lab: Lab, name: str) -> Process:
    return lab.phase.enter_context(playing(lab, f"{name}-clients", KIND, ""))


def _cost(lab: Lab, key: str, *, clients: Process, route: str) -> Contender:
    url, facts = nodes.place_of(lab, "memory", key)
    facts = nodes.node_facts(facts)._replace(client="bare sockets")
    if route == "fastapi":
        server = nodes.fastapi(lab, key, url)
        facts = facts._replace(server=facts.server.replace("node,", "FastAPI,"))
    else:
        server = nodes.node(lab, key, url)
    title = f"{TITLES[route]}, {CPU_CLIENTS} clients push"
    sample = _loaded(lab, clients, route, server, CPU_CLIENTS)
    return Contender(key, title, "pushes/s", facts, sample)


def _group(
    lab: Lab, key: str, *_: Any, clients: Process, store: str, is_grouped: bool
) -> Contender:
    url, facts = nodes.place_of(lab, store, key)
    server = nodes.node(lab, key, url, is_grouped=is_grouped)
    words = "grouped" if is_grouped else "each push alone"
    title = f"node on {STORES[store]}, {GROUP_CLIENTS} clients push, {words}"
    sample = _loaded(lab, clients, "node", server, GROUP_CLIENTS)
    facts = nodes.node_facts(facts)._replace(client="bare sockets")
    return Contender(key, title, "pushes/s", facts, sample)


def _loaded(lab: Lab, clients: Process, route: str, server: Served, number: int) -> Sample:
    def sample(turn: int) -> dict[str, float]:
        figures: dict[str, float] = clients.ask(
            "load",
            route=route,
            socket=str(server.socket),
            pid=server.pid,
            clients=number,
            seconds=lab.settings.seconds,
        )
        return figures

    return sample
