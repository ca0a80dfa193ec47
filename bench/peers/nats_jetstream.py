"""NATS JetStream, file store, through nats-py."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version as installed
from typing import Any

import msgspec
import nats
from bench.context import Facts, Lab
from bench.peers import servers

_encode = msgspec.json.Encoder().encode

MOST_PENDING = 100_000


class NatsServer:
    """A running server."""

    def __init__(self, port: int, version: str) -> None:
        self.port = port
        self.facts = Facts(
            "file store, synced every 2 min", f"nats-py {installed('nats-py')}", version
        )

    def stream(self, name: str) -> Stream:
        return Stream(self.port, name)


class Stream:
    """One stream: a call publishes all its messages and then waits for all their acks."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open(port))

    async def _open(self, port: int) -> None:
        self._nats = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
        self._js = self._nats.jetstream(publish_async_max_pending=MOST_PENDING)
        await self._js.add_stream(name=self.name, subjects=[self.name])

    def append(self, bodies: Sequence[Any]) -> int:
        return self._loop.run_until_complete(self._append(bodies))

    async def _append(self, bodies: Sequence[Any]) -> int:
        acks = [await self._js.publish_async(self.name, _encode(body)) for body in bodies]
        await asyncio.gather(*acks)
        return len(acks)

    def drop(self) -> None:
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        await self._js.delete_stream(self.name)
        await self._nats.close()


@contextmanager
def start(lab: Lab) -> Iterator[NatsServer]:
    path = servers.program("nats-server", ("nats-server",))
    version = servers.version(path).rpartition("v")[2]
    port = servers.free_port()
    with lab.subfolder("nats") as folder:
        command = [path, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder / "store"]
        with servers.running(command, port, folder / "log"):
            yield NatsServer(port, f"nats-server {version}")
