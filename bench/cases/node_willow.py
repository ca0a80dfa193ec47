"""One item by Willow's API and by the node's own: pushed, handed to a consumer that waits, settled.

One thread has two connections, so that no switch of threads is measured.
"""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from bench import nodes
from bench.bodies import slices
from bench.context import Contender, Lab
from bench.measure import percentile
from bench.nodes import STORES

from headrace.drivers.http.messages import AnswerReader

WAYS = {"willow": "Willow's API", "own": "the node's own API"}
READY_SECONDS = 0.005
"""How long the consumer has waited when an item is pushed."""
WARM_ITEMS = 30
SECONDS = 30.0
CHANNEL = {"os": "linux"}
_PAIRS = {"os": {"Type": 13, "Data": "linux"}}
_QUEUE = "/v1/queues/orders"
_OWN = "/api/v1/queues"
_LINUX = {
    "Value": {"Type": 13, "Data": "linux"},
    "Comparison": "=",
    "TypeRestrictions": {"MinDataType": 13, "MaxDataType": 13},
}


class Connection:
    """A connection to a node that carries one request at a time, in JSON."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(SECONDS)
        self._socket.connect(path)

    def send(self, method: str, path: str, body: Any) -> None:
        """Send a request, and do not wait for its answer."""
        content = msgspec.json.encode(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + content)

    def answer(self) -> Any:
        """The JSON of the answer to what was sent."""
        reader = AnswerReader()
        answer = None
        while answer is None:
            answer = reader.feed(self._socket.recv(2**18))
        if answer.status >= 300:
            raise RuntimeError(f"status {answer.status}: {answer.body[:300]!r}")
        return msgspec.json.decode(answer.body) if answer.body else None

    def ask(self, method: str, path: str, body: Any) -> Any:
        """Send a request and wait for the answer."""
        self.send(method, path, body)
        return self.answer()

    def close(self) -> None:
        self._socket.close()


class WillowWay:
    """Willow's requests."""

    def __init__(self, producer: Connection, consumer: Connection) -> None:
        self._producer, self._consumer = producer, consumer
        spec = {"DBDefinition": {"Name": "orders"}, "Properties": {"MaxItems": -1}}
        producer.ask("POST", "/v1/queues", {"Spec": spec})

    def wait(self) -> None:
        query = {"Selection": {"KeyValues": {"os": _LINUX}}}
        self._consumer.send("GET", f"{_QUEUE}/channels/items", query)

    def push(self, body: Any) -> None:
        properties = {
            "Data": base64.b64encode(msgspec.json.encode(body)).decode(),
            "Updateable": False,
            "RetryAttempts": 1,
            "RetryPosition": "front",
            "TimeoutDuration": 60 * 10**9,
        }
        spec = {"DBDefinition": {"KeyValues": _PAIRS}, "Properties": properties}
        self._producer.ask("POST", f"{_QUEUE}/channels/items", {"Spec": spec})

    def settle(self) -> None:
        id = self._consumer.answer()["State"]["ID"]
        ack = {"ItemID": id, "KeyValues": _PAIRS, "Passed": True}
        self._consumer.ask("POST", f"{_QUEUE}/channels/items/ack", ack)


class OwnWay:
    """The same by the node's own API."""

    def __init__(self, producer: Connection, consumer: Connection) -> None:
        self._producer, self._consumer = producer, consumer
        producer.ask("POST", _OWN, {"name": "orders", "settings": {"discipline": "fifo"}})

    def wait(self) -> None:
        self._consumer.send("POST", f"{_OWN}/orders/claim", {"count": 1, "wait": 20, "lease": 60})

    def push(self, body: Any) -> None:
        document = {"payload": body, "channel": CHANNEL}
        self._producer.ask("POST", f"{_OWN}/orders/items", document)

    def settle(self) -> None:
        [item] = self._consumer.answer()["items"]
        outcome = {"item": item["id"], "token": item["token"], "kind": "complete"}
        self._consumer.ask("POST", f"{_OWN}/orders/settle", {"outcomes": [outcome]})


_MAKE: dict[str, Callable[[Connection, Connection], WillowWay | OwnWay]] = {
    "willow": WillowWay,
    "own": OwnWay,
}


def contenders(lab: Lab) -> Iterator[Contender]:
    for store in STORES:
        for way in WAYS:
            name = f"willow {way} {store}"
            yield from lab.offer(name, _contender, *nodes.needs(store), store=store, way=way)


def _contender(lab: Lab, key: str, *_: Any, store: str, way: str) -> Contender:
    url, facts = nodes.place_of(lab, store, key)
    path = str(nodes.node(lab, key, url).socket)
    producer, consumer = Connection(path), Connection(path)
    for connection in (producer, consumer):
        lab.phase.callback(connection.close)
    ours = _MAKE[way](producer, consumer)
    singles = slices(lab.bodies, 1)
    each_round = -(-lab.settings.latencies // lab.settings.rounds)

    def exchange() -> float:
        body = next(singles)[0]
        ours.wait()
        time.sleep(READY_SECONDS)
        start = time.perf_counter()
        ours.push(body)
        ours.settle()
        return (time.perf_counter() - start) * 1000

    def sample(turn: int) -> dict[str, float]:
        for _ in range(WARM_ITEMS):
            exchange()
        found = [exchange() for _ in range(each_round)]
        return {"p50": percentile(found, 50), "p95": percentile(found, 95)}

    title = f"{STORES[store]}, {WAYS[way]}: push to a waiting consumer, and its ack"
    return Contender(key, title, "ms", nodes.node_facts(facts), sample)
