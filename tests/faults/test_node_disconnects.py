"""Clients that leave while they wait, by the thousand: the node keeps nothing of them.

``HEADRACE_LEAVES`` is how many leave in each test: more for a soak.
"""

import asyncio
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import headrace
from faults.polling import PATIENCE, until
from faults.processes import ChildProcesses
from faults.restarted_node import RestartedNode

LEAVES = int(os.environ.get("HEADRACE_LEAVES", "1000"))
TOGETHER = 100
STREAM = b"GET /api/v1/notifications/queue%2Fq HTTP/1.1\r\nhost: localhost\r\n\r\n"

pytestmark = [
    pytest.mark.timeout(120 + LEAVES / 5),
    pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc"),
]


class Held:
    """How many threads and descriptors the process of a node has."""

    def __init__(self, node: RestartedNode) -> None:
        self._folder = Path(f"/proc/{node.process.pid}")
        self.before = self.now()

    def now(self) -> tuple[int, int]:
        return tuple(len(list((self._folder / kind).iterdir())) for kind in ("task", "fd"))  # type: ignore[return-value]

    def check(self, slack: int = 32) -> None:
        """Wait until there are no more than before, but for what pools keep."""
        until(
            lambda: all(
                now <= was + slack for now, was in zip(self.now(), self.before, strict=True)
            ),
            lambda: f"{self.now()} threads and descriptors to become {self.before}",
        )


@pytest.fixture
def node(sqlite_url: str, tmp_path: Path) -> Iterator[RestartedNode]:
    with RestartedNode(sqlite_url, tmp_path, is_unix=False) as node:
        with headrace.connect(node.url) as hr:
            hr.queues.create("q", max_attempts=2 * LEAVES, max_crashes=2 * LEAVES)
            # Threads that stay are started by the first calls.
            for number in range(20):
                hr.queue("q").push(number)
            assert len(hr.queue("q").claim(100)) == 20
            assert hr.queue("q").claim(wait=0.05) == []
        yield node
        assert "Traceback" not in node.stop()


def connect(node: RestartedNode) -> socket.socket:
    host, _, port = node.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), PATIENCE)


def descriptors_here() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def leave(connection: socket.socket, rng: random.Random) -> None:
    """Close a connection, or reset it."""
    if rng.random() < 0.5:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def assert_untouched(node: RestartedNode) -> None:
    """An item that is pushed now is claimed for the first time, and immediately."""
    with headrace.connect(node.url) as hr:
        hr.queue("q").push("it")
        [item] = hr.queue("q").claim(wait=PATIENCE)
        assert item.attempts == 1
        item.complete()


def test_streams_of_clients_that_leave_end(node: RestartedNode, rng: random.Random) -> None:
    held = Held(node)
    for _ in range(LEAVES // TOGETHER):
        connections = [connect(node) for _ in range(TOGETHER)]
        for connection in connections:
            connection.sendall(STREAM)
        for connection in connections:
            # Some leave before the node listens for them.
            if rng.random() < 0.7:
                assert connection.recv(100)
            leave(connection, rng)
    held.check()
    assert_untouched(node)


def test_claims_of_clients_that_leave_last_as_long_as_their_leases(
    node: RestartedNode, rng: random.Random
) -> None:
    """No item is lost, none is claimed for longer, and nothing of the requests stays."""
    with headrace.connect(node.url) as hr:
        hr.queue("q").push_many(list(range(TOGETHER)))
        held = Held(node)
        for number in range(LEAVES // 2):
            request = {"queue": "q", "token": f"t{number}", "count": 1, "lease_ms": 50}
            body = msgspec.json.encode({"request": request})
            with connect(node) as connection:
                connection.sendall(
                    b"POST /api/v1/operations/queues.claim HTTP/1.1\r\nhost: localhost\r\n"
                    b"content-type: application/json\r\nheadrace-request: r%d\r\n"
                    b"content-length: %d\r\n\r\n%s" % (number, len(body), body)
                )
                leave(connection, rng)
        claimed: set[object] = set()

        def claim_rest() -> bool:
            claimed.update(item.payload for item in hr.queue("q").claim(TOGETHER, lease=3600))
            return len(claimed) == TOGETHER

        until(claim_rest, lambda: f"all items; {len(claimed)} came")
        held.check()


def test_waiting_claims_of_killed_clients(node: RestartedNode, processes: ChildProcesses) -> None:
    held = Held(node)
    children = [processes.start("waiting_claims", url=node.url, count=TOGETHER) for _ in range(2)]
    for child in children:
        until(child.is_at_work, "waiting claims")
    # All of them have a stream, or are about to.
    until(lambda: held.now()[1] > held.before[1] + TOGETHER, "streams")
    for child in children:
        child.kill()
    assert_untouched(node)
    held.check()


def test_waiting_claims_of_cancelled_tasks(node: RestartedNode, rng: random.Random) -> None:
    held = Held(node)

    async def wait_and_leave() -> None:
        async with headrace.aconnect(node.url) as hr:
            before = descriptors_here()
            for _ in range(LEAVES // TOGETHER):
                waits = [
                    asyncio.ensure_future(hr.queue("q").claim(wait=None)) for _ in range(TOGETHER)
                ]
                await asyncio.sleep(rng.uniform(0, 0.2))
                for wait in waits:
                    wait.cancel()
                endings = await asyncio.gather(*waits, return_exceptions=True)
                assert all(isinstance(one, asyncio.CancelledError) for one in endings)
            # Connections that are kept for later requests, at most.
            assert descriptors_here() <= before + 40

    asyncio.run(wait_and_leave())
    assert_untouched(node)
    held.check()


def send_long_poll(node: RestartedNode, lease: float) -> socket.socket:
    """A claim over the resource API that waits for a minute."""
    body = msgspec.json.encode({"wait": 60, "lease": lease})
    connection = connect(node)
    connection.sendall(
        b"POST /api/v1/queues/q/claim HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    return connection


def test_long_polls_of_clients_that_leave_end(node: RestartedNode, rng: random.Random) -> None:
    held = Held(node)
    for _ in range(LEAVES // TOGETHER):
        connections = [send_long_poll(node, 3600) for _ in range(TOGETHER)]
        # Some leave before the node has read their request, others while it waits.
        time.sleep(rng.uniform(0, 0.2))
        for connection in connections:
            leave(connection, rng)
    held.check()
    assert_untouched(node)


def test_items_that_come_while_their_pollers_leave_are_not_lost(
    node: RestartedNode, rng: random.Random
) -> None:
    """Whether the claim was released or its answer went to nobody, the item is claimed again."""
    with headrace.connect(node.url) as hr:
        held = Held(node)
        for number in range(LEAVES // TOGETHER):
            connections = [send_long_poll(node, 0.05) for _ in range(TOGETHER)]
            time.sleep(rng.uniform(0, 0.1))
            hr.queue("q").push_many([[number, each] for each in range(10)])
            for connection in connections:
                leave(connection, rng)
        claimed: set[tuple[int, int]] = set()

        def claim_rest() -> bool:
            items = hr.queue("q").claim(TOGETHER, lease=3600)
            claimed.update((item.payload[0], item.payload[1]) for item in items)
            return len(claimed) == 10 * (LEAVES // TOGETHER)

        until(claim_rest, lambda: f"all items; {len(claimed)} came")
        held.check()
