"""Streams of a topic: what it costs a server to deliver a record to each of a thousand clients."""

from __future__ import annotations

from collections.abc import Iterator

from bench import nodes
from bench.context import Contender, Lab
from bench.launcher import Kind, Process, playing

KIND = Kind("bench.node_streams")
STREAMS = 1000


def contenders(lab: Lab) -> Iterator[Contender]:
    """In memory, where nothing but the deliveries costs."""
    clients = lab.phase.enter_context(playing(lab, "stream-clients", KIND, ""))
    yield from lab.offer("streams node", _contender, clients=clients, is_node=True)
    yield from lab.offer("streams starlette", _contender, clients=clients, is_node=False)


def _contender(lab: Lab, key: str, *, clients: Process, is_node: bool) -> Contender:
    url, facts = nodes.place_of(lab, "memory", key)
    facts = nodes.node_facts(facts)._replace(client="bare sockets")
    if is_node:
        server, words = nodes.node(lab, key, url), "node in memory"
    else:
        server, words = nodes.starlette(lab, key, url), "Starlette with sse-starlette"
        facts = facts._replace(server=facts.server.replace("node,", "Starlette,"))

    def sample(turn: int) -> dict[str, float]:
        figures: dict[str, float] = clients.ask(
            "deliver",
            socket=str(server.socket),
            pid=server.pid,
            streams=STREAMS,
            seconds=lab.settings.seconds,
        )
        return figures

    title = f"{words}, {STREAMS} streams"
    return Contender(key, title, "deliveries/s", facts, sample)
