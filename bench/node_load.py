"""Independent clients of a server, each with one push in flight, as a player.

They are bare connections with requests that were encoded before, so that what is measured is the
server, and not its clients.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
import uvloop
from bench.bodies import pool
from bench.contender import Figures
from bench.measure import cpu_seconds_by_thread

from headrace.contract.items import PushCall
from headrace.contract.operations import OPERATIONS
from headrace.contract.wire import NODE_PATH, NodeInfo
from headrace.drivers.http.address import Address, parse_address
from headrace.drivers.http.connections import HttpConnections
from headrace.drivers.http.messages import Call, Letterhead, new_id
from headrace.model.queues.items import Document
from headrace.model.url import parse_url

QUEUE = "orders"
BODIES = 2000
WARM_SHARE = 5
SETTLING_SECONDS = 30.0

Requests = Iterator[bytes]


class Player:
    """``where`` is not used: each call names its server."""

    client = durability = ""

    def __init__(self, where: str) -> None:
        self._bodies = pool(BODIES)
        self._made: dict[str, Requests] = {}

    def load(self, route: str, socket: str, pid: int, clients: int, seconds: float) -> Figures:
        """Pushes a second, and the server's CPU for each."""
        if socket not in self._made:
            make: dict[str, Callable[[str], Requests]] = {
                "node": self._node_requests,
                "json": self._json_requests,
                "fastapi": self._fastapi_requests,
            }
            self._made[socket] = make[route](socket)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_load(socket, self._made[socket], pid, clients, seconds))

    def _node_requests(self, socket: str) -> Requests:
        """As the driver sends them."""
        address = parse_address(parse_url(f"unix://{socket}"))
        operation = OPERATIONS["queues.push"]
        letterhead = Letterhead(address, None)
        bodies = []
        for body in self._bodies:
            document = Document(payload=json.dumps(body, separators=(",", ":")))
            call = PushCall(queue=QUEUE, documents=(document,))
            pushing = Call(operation, operation.arguments(calls=[call]), is_repeatable=False)
            bodies.append(letterhead.encode(pushing))
        incarnation = _incarnation(address, letterhead)
        for turn in count():
            yield letterhead.post(
                pushing,
                bodies[turn % BODIES],
                id=new_id(),
                incarnation=incarnation,
                give_up=time.monotonic() + 60,
            )

    def _json_requests(self, socket: str) -> Requests:
        """As programs in any language send them."""
        return self._plain_requests("/api/v1")

    def _fastapi_requests(self, socket: str) -> Requests:
        return self._plain_requests("")

    def _plain_requests(self, base: str) -> Requests:
        head = f"POST {base}/queues/{QUEUE}/items HTTP/1.1\r\nhost: localhost\r\n".encode()
        requests = []
        for payload in self._bodies:
            body = json.dumps({"payload": payload}, separators=(",", ":")).encode()
            lines = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            requests.append(head + lines + body)
        for turn in count():
            yield requests[turn % BODIES]


def _incarnation(address: Address, letterhead: Letterhead) -> str:
    connections = HttpConnections(address)
    answer = connections.exchange(letterhead.get(NODE_PATH), time.monotonic() + 10)
    connections.close()
    return msgspec.json.decode(answer.body, type=NodeInfo).incarnation


async def _load(socket: str, requests: Requests, pid: int, clients: int, seconds: float) -> Figures:
    loop = asyncio.get_running_loop()
    run = _Run(requests)
    opened = [
        await loop.create_unix_connection(lambda: _Client(run), socket) for _ in range(clients)
    ]
    for _, client in opened:
        client.send()
    await run.wait(seconds / WARM_SHARE)
    done, cpu, start = run.done, _cpu(pid), time.perf_counter()
    await run.wait(seconds)
    pushed, spent = run.done - done, _cpu(pid) - cpu
    elapsed = time.perf_counter() - start
    # Connections that end with a push in flight would make the server work in the next sample.
    run.is_over = True
    async with asyncio.timeout(SETTLING_SECONDS):
        await asyncio.gather(*(client.ended for _, client in opened))
    return {"rate": pushed / elapsed, "cpu": spent / pushed * 1e6}


def _cpu(pid: int) -> float:
    return sum(cpu_seconds_by_thread(pid).values())


class _Run:
    """What all clients of a sample share."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.done = 0
        self.is_over = False
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self, seconds: float) -> None:
        """Wait while clients push; raises if one has failed."""
        await asyncio.wait([self.failure], timeout=seconds)
        if self.failure.done():
            self.failure.result()

    def fail(self, reason: str) -> None:
        if not self.failure.done():
            self.failure.set_exception(RuntimeError(reason))


class _Client(asyncio.Protocol):
    """One connection: sends the next request when the last was answered."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._heard = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self) -> None:
        self._transport.write(next(self._run.requests))

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, found, body = self._heard.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        if head[9:12] not in (b"200", b"201"):
            self._run.fail(f"the server answers {self._heard[:500]!r}")
        self._heard = b""
        self._run.done += 1
        if self._run.is_over:
            self._transport.close()
        else:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._run.is_over:
            self._run.fail("the server has closed a connection")
        self.ended.set_result(None)


def _length(head: bytes) -> int:
    after = head.lower().partition(b"content-length:")[2]
    return int(after.partition(b"\r\n")[0])
