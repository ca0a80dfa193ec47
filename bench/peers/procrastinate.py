"""procrastinate through psycopg."""

from __future__ import annotations

import asyncio
from typing import Any

import procrastinate
from bench.contender import BlockingPlayer, Figures, Handle, Pace, libraries
from procrastinate import jobs
from procrastinate.worker import Worker

TASK = "orders"
CONCURRENCY = 10  # one does less, a hundred no more


class Player(BlockingPlayer):
    client = libraries("procrastinate", "psycopg")
    durability = "fsync at commit"
    pace = 400.0
    warm = 30

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=where))
        self._app.open()
        if not self._app.check_connection():
            self._app.schema_manager.apply_schema()
        self._task = self._app.configure_task(TASK)

    def push(self, bodies: list[Any]) -> None:
        if len(bodies) == 1:
            self._task.defer(body=bodies[0])
        else:
            self._task.batch_defer(*({"body": body} for body in bodies))

    def work_rate(self, seconds: float) -> Figures:
        """No-op items, one worker."""
        count = self.enough(seconds)
        self.fill(count)
        pace = Pace(seconds, self.warm, count)
        asyncio.run(self._work(lambda _body: pace.count(), CONCURRENCY))
        self._app.connector.get_sync_connector().execute_query("delete from procrastinate_jobs")
        return self.noted(pace)

    def serve(self, handle: Handle) -> None:
        def work(body: Any) -> bool:
            handle(body)
            return False

        asyncio.run(self._work(work, 1))

    async def _work(self, work: Any, concurrency: int) -> None:
        """Work until ``work`` says that it is over."""
        connector = procrastinate.PsycopgConnector(conninfo=self.where)
        app = procrastinate.App(connector=connector)

        @app.task(name=TASK)
        async def handle(body: Any) -> None:
            if work(body):
                worker.stop()

        async with app.open_async():
            worker = Worker(
                app,
                concurrency=concurrency,
                delete_jobs=jobs.DeleteJobCondition.ALWAYS,
                install_signal_handlers=False,
            )
            await worker.run()
