"""litequeue: one item a call, no batches."""

from __future__ import annotations

from typing import Any

import msgspec
from bench.contender import BlockingPlayer, libraries, new_file
from litequeue import LiteQueue

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Player(BlockingPlayer):
    client = libraries("litequeue")
    durability = "WAL, synced at checkpoint"
    pace = 5_000.0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.renew()

    def renew(self) -> None:
        # It keeps what is done, and slows down with it.
        self._queue = LiteQueue(new_file(self.where))

    def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            self._queue.put(_encode(body).decode())

    def fill(self, count: int) -> None:
        with self._queue.transaction():
            super().fill(count)

    def take(self, size: int) -> int:
        for done in range(size):
            message = self._queue.pop()
            if message is None:
                return done
            _decode(message.data)
            self._queue.done(message.message_id)
        return size
