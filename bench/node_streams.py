"""Many streams of one topic, and a client that commits to it, as a player.

The streams are bare connections that only count ends of events, so that what is measured is the
server.
"""

from __future__ import annotations

import asyncio
import json
import time
from itertools import islice
from typing import Any

import uvloop
from bench.bodies import pool
from bench.contender import Figures
from bench.measure import cpu_seconds_by_thread

TOPIC = "/api/v1/topics/orders"
BODIES = 200
WARM_COMMITS = 5
DELIVERY_SECONDS = 60.0
LINE = b"\ndata: "


class Player:
    """``where`` is not used: each call names its server."""

    client = durability = ""

    def __init__(self, where: str) -> None:
        self._bodies = [
            json.dumps({"body": body}, separators=(",", ":")).encode() for body in pool(BODIES)
        ]

    def deliver(self, socket: str, pid: int, streams: int, seconds: float) -> Figures:
        """Deliveries a second, and the server's CPU for each, one commit after the other."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._deliver(socket, pid, streams, seconds))

    async def _deliver(self, socket: str, pid: int, streams: int, seconds: float) -> Figures:
        loop = asyncio.get_running_loop()
        run = _Run()
        opened = [
            (await loop.create_unix_connection(lambda: _Stream(run), socket))[1]
            for _ in range(streams)
        ]
        async with asyncio.timeout(DELIVERY_SECONDS):
            await asyncio.gather(*(stream.is_open for stream in opened))
        reader, writer = await asyncio.open_unix_connection(socket)

        async def commit(body: bytes) -> None:
            run.expect(streams)
            writer.write(
                b"POST %b/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%b" % (TOPIC.encode(), len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if head[9:12] != b"201":
                raise RuntimeError(f"the server answers {head!r}")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            async with asyncio.timeout(DELIVERY_SECONDS):
                await run.is_complete.wait()

        for body in islice(self._bodies, WARM_COMMITS):
            await commit(body)
        commits, cpu, start = 0, _cpu(pid), time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            await commit(self._bodies[commits % BODIES])
            commits += 1
        spent = _cpu(pid) - cpu
        if {stream.events for stream in opened} != {WARM_COMMITS + commits}:
            raise RuntimeError("a stream has not received each record once")
        for stream in opened:
            stream.transport.close()
        writer.close()
        deliveries = commits * streams
        return {"rate": deliveries / elapsed, "cpu": spent / deliveries * 1e6}


def _cpu(pid: int) -> float:
    return sum(cpu_seconds_by_thread(pid).values())


class _Run:
    """What all streams of a sample share."""

    def __init__(self) -> None:
        self._missing = 0
        self.is_complete = asyncio.Event()

    def expect(self, events: int) -> None:
        self._missing = events
        self.is_complete.clear()

    def count(self, events: int) -> None:
        self._missing -= events
        if self._missing == 0:
            self.is_complete.set()


class _Stream(asyncio.Protocol):
    """One stream: counts the records of which it has received the end."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._rest = b""
        self.events = 0
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(f"GET {TOPIC}/stream?start=$ HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.is_open.done():
            if data[9:12] != b"200":
                self.is_open.set_exception(RuntimeError(f"the server answers {data[:300]!r}"))
            else:
                self.is_open.set_result(None)
        # A line ends with CR LF, too. The end of one chunk may be the beginning of a line.
        data = self._rest + data
        self._rest = data[-len(LINE) + 1 :]
        if events := data.count(LINE):
            self.events += events
            self._run.count(events)
