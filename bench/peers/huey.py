"""huey on a SQLite file. It has no acknowledgement: an item that is taken is gone."""

from __future__ import annotations

from typing import Any

from bench.contender import BlockingPlayer, Handle, libraries
from huey import SqliteHuey


class Player(BlockingPlayer):
    client = libraries("huey")
    durability = "WAL, synced at commit"
    pace = 2_000.0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._huey = SqliteHuey(filename=where, results=False)
        self._handle: Handle = lambda _body: None

        @self._huey.task(name="orders")
        def orders(body: Any) -> None:
            self._handle(body)

        self._task = orders

    def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            self._task(body)

    def take(self, size: int) -> int:
        for done in range(size):
            task = self._huey.dequeue()
            if task is None:
                return done
            self._huey.execute(task)
        return size

    def serve(self, handle: Handle) -> None:
        self._handle = handle
        self._huey.create_consumer(workers=1, periodic=False).run()
