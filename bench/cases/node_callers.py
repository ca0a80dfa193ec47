"""Commits of 32 concurrent callers of one client, one record each, against PipeProc's node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench import nodes
from bench.cases.one_record import commit_from_tasks
from bench.context import Contender, Lab
from bench.peers.pipeproc import PipeProc

CALLERS = 32


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("callers node", _node)
    yield from lab.offer("callers pipeproc", _pipeproc, "pipeproc")


def _node(lab: Lab, key: str) -> Contender:
    url, facts = nodes.place_of(lab, "sqlite", key)
    node = nodes.node(lab, key, url)

    def sample(turn: int) -> dict[str, float]:
        return {"rate": asyncio.run(commit_from_tasks(lab, node.url, f"orders-{turn}", CALLERS))}

    title = f"SQLite through the node, {CALLERS} callers commit"
    return Contender(key, title, "records/s", nodes.node_facts(facts), sample)


def _pipeproc(lab: Lab, key: str, peer: PipeProc) -> Contender:
    def sample(turn: int) -> dict[str, float]:
        seconds = lab.settings.seconds
        return {"rate": peer.callers_rate(f"callers-{turn}", CALLERS, seconds)}

    title = f"PipeProc over its socket, {CALLERS} callers commit"
    return Contender(key, title, "records/s", peer.facts, sample)
