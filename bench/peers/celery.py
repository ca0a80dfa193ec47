"""Celery on Redis, its worker in the solo pool: the shortest way from queue to task."""

from __future__ import annotations

from typing import Any

import celery
from bench.contender import BlockingPlayer, Handle, libraries


class Player(BlockingPlayer):
    client = libraries("celery", "kombu", "redis")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._app = celery.Celery("bench", broker=where, set_as_current=False)
        self._app.conf.task_ignore_result = True
        self._handle: Handle = lambda _body: None

        @self._app.task(name="orders")
        def orders(body: Any) -> None:
            self._handle(body)

        self._task = orders

    def push(self, bodies: list[Any]) -> None:
        for body in bodies:
            self._task.delay(body)

    def serve(self, handle: Handle) -> None:
        self._handle = handle
        self._app.worker_main(["worker", "--pool", "solo", "--loglevel", "ERROR"])
