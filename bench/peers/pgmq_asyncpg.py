"""pgmq's functions called by asyncpg, with nothing in between: the most that it can do."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
from bench.contender import AwaitingPlayer, libraries
from bench.peers.pgmq import HIDDEN_SECONDS, QUEUE, install

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Player(AwaitingPlayer):
    durability = "fsync at commit"
    pace = 25_000.0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.client = f"{libraries('asyncpg')}, pgmq SQL {install(where)}"
        self.run(self._open())

    async def _open(self) -> None:
        connection = await asyncpg.connect(self.where)
        # Prepared once, as a user who needs speed would.
        self._send_one = await connection.prepare(f"select pgmq.send('{QUEUE}', $1::jsonb)")
        self._send_many = await connection.prepare(
            f"select pgmq.send_batch('{QUEUE}', $1::jsonb[])"
        )
        self._read = await connection.prepare(
            f"select msg_id, message from pgmq.read('{QUEUE}', {HIDDEN_SECONDS}, $1)"
        )
        self._delete = await connection.prepare(f"select pgmq.delete('{QUEUE}', $1::bigint[])")

    async def push(self, bodies: list[Any]) -> None:
        if len(bodies) == 1:
            await self._send_one.fetchval(_encode(bodies[0]).decode())
        else:
            await self._send_many.fetch([_encode(body).decode() for body in bodies])

    async def take(self, size: int) -> int:
        rows = await self._read.fetch(size)
        for row in rows:
            _decode(row["message"])
        if rows:
            await self._delete.fetch([row["msg_id"] for row in rows])
        return len(rows)
