"""dramatiq on Redis."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
from bench.contender import BlockingPlayer, Handle, libraries
from dramatiq.brokers.redis import RedisBroker


class Player(BlockingPlayer):
    client = libraries("dramatiq", "redis")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._broker = RedisBroker(url=where)
        self._handle: Handle = lambda _body: None

        @dramatiq.actor(broker=self._broker, actor_name="orders")
        def orders(body: Any) -> None:
            self._handle(body)

        self._actor = orders

    def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            self._actor.send(body)

    def serve(self, handle: Handle) -> None:
        self._handle = handle
        dramatiq.Worker(self._broker).start()
        threading.Event().wait()
