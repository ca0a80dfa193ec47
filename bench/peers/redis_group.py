"""Redis Streams with a consumer group: XADD, XREADGROUP BLOCK, XACK."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import redis
from bench.contender import BlockingPlayer, Handle, libraries

STREAM, GROUP = "orders", "workers"
BLOCK_MS = 5_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Player(BlockingPlayer):
    client = libraries("redis", "hiredis")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        # It answers within BLOCK_MS; the client's own limit would be shorter.
        self._redis = redis.Redis.from_url(where, socket_timeout=None, protocol=2)
        with suppress(redis.ResponseError):  # the group is there
            self._redis.xgroup_create(STREAM, GROUP, mkstream=True)

    def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            self._redis.xadd(STREAM, {"body": _encode(body)})

    def serve(self, handle: Handle) -> None:
        while True:
            for _stream, entries in self._read():
                for entry_id, fields in entries:
                    handle(_decode(fields[b"body"]))
                    self._redis.xack(STREAM, GROUP, entry_id)

    def _read(self) -> list[Any]:
        found: Any = self._redis.xreadgroup(GROUP, "one", {STREAM: ">"}, count=10, block=BLOCK_MS)
        return found or []
