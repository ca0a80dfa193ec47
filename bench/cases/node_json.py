"""Claim and settle 100 items in JSON through the node, and with the store opened directly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any

import msgspec
from bench import nodes
from bench.bodies import slices
from bench.context import Contender, Lab
from bench.nodes import STORES

import headrace

QUEUE = "orders"
BATCH = 100
WARM_BATCHES = 3

Exchange = Callable[[], int]
"""Claims a batch and settles it; how many items there were."""


def contenders(lab: Lab) -> Iterator[Contender]:
    for store in STORES:
        yield from lab.offer(f"json-100 node {store}", _json, *nodes.needs(store), store=store)
        yield from lab.offer(f"json-100 direct {store}", _direct, *nodes.needs(store), store=store)


def _json(lab: Lab, key: str, *_: Any, store: str) -> Contender:
    url, facts = nodes.place_of(lab, store, key)
    server = nodes.node(lab, key, url)
    facts = nodes.node_facts(facts)._replace(client="http.client, JSON")
    connection = _UnixConnection(server.socket)
    lab.phase.callback(connection.close)

    def exchange() -> int:
        items = connection.post("claim", {"count": BATCH})["items"]
        outcomes = [
            {"item": item["id"], "token": item["token"], "kind": "complete"} for item in items
        ]
        connection.post("settle", {"outcomes": outcomes})
        return len(items)

    return _contender(lab, key, f"{STORES[store]} through the node, in JSON", url, facts, exchange)


def _direct(lab: Lab, key: str, *_: Any, store: str) -> Contender:
    url, facts = nodes.place_of(lab, store, key)
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)
    queue = hr.queue(QUEUE)

    def exchange() -> int:
        items = queue.claim(BATCH)
        queue.complete(items)
        return len(items)

    return _contender(lab, key, f"{STORES[store]} direct", url, facts, exchange)


def _contender(
    lab: Lab, key: str, title: str, url: str, facts: Any, exchange: Exchange
) -> Contender:
    filler = headrace.connect(url)
    lab.phase.callback(filler.close)
    batches = slices(lab.bodies, BATCH)

    def timed() -> float:
        filler.push_many(QUEUE, next(batches))
        start = time.perf_counter()
        done = exchange()
        spent = time.perf_counter() - start
        if done != BATCH:
            raise RuntimeError(f"{done} items were claimed, not {BATCH}")
        return spent

    def sample(turn: int) -> dict[str, float]:
        for _ in range(WARM_BATCHES):
            timed()
        spent = done = 0.0
        while spent < lab.settings.seconds:
            spent += timed()
            done += BATCH
        return {"rate": done / spent}

    return Contender(key, f"{title}, claim and settle {BATCH}", "items/s", facts, sample)


class _UnixConnection(HTTPConnection):
    """A connection to a node, as any program may open it."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket(AF_UNIX)
        self.sock.connect(str(self._path))

    def post(self, verb: str, body: object) -> Any:
        """The answer to a request, which must succeed."""
        text = msgspec.json.encode(body)
        path = f"/api/v1/queues/{QUEUE}/{verb}"
        self.request("POST", path, text, {"Content-Type": "application/json"})
        response = self.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"the node answers {response.status}: {answer[:300]!r}")
        return msgspec.json.decode(answer)
