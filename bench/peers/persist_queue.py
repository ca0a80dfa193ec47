"""persist-queue's SQLiteAckQueue, which pickles; one item a call."""

from __future__ import annotations

from typing import Any

from bench.contender import BlockingPlayer, libraries, new_file
from persistqueue import Empty, SQLiteAckQueue


class Player(BlockingPlayer):
    client = libraries("persist-queue")
    durability = "WAL, synced at commit"
    pace = 2_000.0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.renew()

    def renew(self) -> None:
        # It keeps what is acknowledged, and slows down with it.
        self._queue = SQLiteAckQueue(new_file(self.where), multithreading=True)

    def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            self._queue.put(body)

    def take(self, size: int) -> int:
        for done in range(size):
            try:
                body = self._queue.get(block=False)
            except Empty:
                return done
            self._queue.ack(body)
        return size
