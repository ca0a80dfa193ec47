"""Rows in a table that has a key and nothing else, by asyncpg and uvloop: no queue, but the most
that one could be."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import msgspec
import uvloop
from bench.contender import AwaitingPlayer, libraries

_encode = msgspec.json.Encoder().encode


class Player(AwaitingPlayer):
    client = libraries("asyncpg", "uvloop")
    durability = "fsync at commit"

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.run(self._open())

    async def _open(self) -> None:
        self._connection = await asyncpg.connect(self.where)
        await self._connection.execute(
            "create table if not exists bare"
            " (id bigint generated always as identity primary key, body text)"
        )
        self._insert = await self._connection.prepare("insert into bare (body) values ($1)")

    async def push(self, bodies: list[Any]) -> None:
        rows = [(_encode(body).decode(),) for body in bodies]
        if len(rows) == 1:
            await self._insert.fetch(*rows[0])
        else:
            await self._connection.copy_records_to_table("bare", records=rows, columns=["body"])
