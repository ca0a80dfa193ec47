"""Redis Streams through redis-py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hiredis
import msgspec
import redis
from bench.context import Facts, Lab
from bench.peers import servers
from redis._parsers import _RESP2Parser
from redis.connection import DefaultParser, Encoder, PythonRespSerializer

PACKAGES = ("redis-server", "redis-tools", "liblzf1", "libjemalloc2")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class RedisServer:
    """A running server. ``stream`` gives clients of it."""

    def __init__(self, port: int, *, durability: str, version: str) -> None:
        self.port = port
        self.durability = durability
        self.version = version

    def stream(self, name: str, *, in_c: bool = True) -> Stream:
        return Stream(self, name, in_c=in_c)

    def facts(self, *, in_c: bool = True) -> Facts:
        with_parser = f" + hiredis {hiredis.__version__}" if in_c else ", parser in Python"
        return Facts(self.durability, f"redis-py {redis.__version__}{with_parser}", self.version)


class Stream:
    """One stream: appended to by pipelined XADD, read by XRANGE.

    ``in_c`` parses replies with hiredis; without it redis-py is as pip alone installs it.
    """

    def __init__(self, server: RedisServer, name: str, *, in_c: bool) -> None:
        options: dict[str, Any] = {"parser_class": DefaultParser}
        if not in_c:
            packer = PythonRespSerializer(
                6000, Encoder("utf-8", "strict", decode_responses=False).encode
            )
            options = {"parser_class": _RESP2Parser, "command_packer": packer, "protocol": 2}
        self.name = name
        self._redis = redis.Redis(
            connection_pool=redis.ConnectionPool(
                host="127.0.0.1", port=server.port, socket_timeout=None, **options
            )
        )

    def append(self, bodies: Sequence[Any]) -> int:
        with self._redis.pipeline(transaction=False) as pipe:
            for body in bodies:
                pipe.xadd(self.name, {"body": _encode(body)})
            pipe.execute()
        return len(bodies)

    def append_one(self, body: Any) -> int:
        self._redis.xadd(self.name, {"body": _encode(body)})
        return 1

    def read(self, after: bytes | None, count: int) -> tuple[list[Any], bytes | None]:
        """Up to ``count`` parsed bodies after an id, and the id to go on from."""
        entries = self._redis.xrange(self.name, b"(" + after if after else "-", "+", count)
        found = [_decode(fields[b"body"]) for _, fields in entries]
        return found, entries[-1][0] if entries else None

    def follow(self, timeout_ms: int) -> Iterator[Any]:
        """Bodies that are appended from now on, as they come; ends when none does in time."""
        last: Any = "$"
        while reply := self._redis.xread({self.name: last}, block=timeout_ms):
            [entries] = reply.values() if isinstance(reply, dict) else [reply[0][1]]
            for entry_id, fields in entries:
                last = entry_id
                yield _decode(fields[b"body"])

    def drop(self) -> None:
        self._redis.unlink(self.name)
        self._redis.connection_pool.disconnect()


@contextmanager
def start(lab: Lab, *, is_durable: bool) -> Iterator[RedisServer]:
    """A server that saves nothing, or one that syncs its append-only file at each write."""
    path = servers.program("redis-server", PACKAGES)
    version = next(word[2:] for word in servers.version(path).split() if word.startswith("v="))
    port = servers.free_port()
    name = "redis-aof" if is_durable else "redis"
    with lab.subfolder(name) as folder:
        command = [
            path,
            *("--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""),
            *("--appendonly", "yes" if is_durable else "no", "--appendfsync", "always"),
            # A rewrite of the file in mid-measurement would only slow Redis down.
            *("--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"),
        ]
        durability = "AOF, fsync always" if is_durable else "none (memory only)"
        with servers.running(command, port, folder / "log"):
            yield RedisServer(port, durability=durability, version=f"Redis {version}")
