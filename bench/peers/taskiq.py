"""taskiq on Redis Streams, which are the broker it has with acknowledgements."""

from __future__ import annotations

from typing import Any

from bench.contender import AwaitingPlayer, Handle, libraries
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker


class Player(AwaitingPlayer):
    client = libraries("taskiq", "taskiq-redis", "redis")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._broker = RedisStreamBroker(where)
        self._handle: Handle = lambda _body: None

        @self._broker.task(task_name="orders")
        async def orders(body: Any) -> None:
            self._handle(body)

        self._task = orders
        self.run(self._broker.startup())

    async def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            await self._task.kiq(body)

    def serve(self, handle: Handle) -> None:
        self._handle = handle
        self.run(run_receiver_task(self._broker))
