"""pgqueuer through asyncpg and uvloop, as its own command runs it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import uvloop
from bench.contender import AwaitingPlayer, Figures, Handle, Pace, libraries
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

ENTRYPOINT = "orders"
A_BATCH = 100

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Player(AwaitingPlayer):
    client = libraries("pgqueuer", "asyncpg", "uvloop")
    durability = "fsync at commit"
    pace = 6_000.0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.run(self._open())

    async def _open(self) -> None:
        self._queries = Queries.from_asyncpg_connection(await asyncpg.connect(self.where))
        if not await self._queries.schema_is_installed():
            await self._queries.install()

    async def push(self, bodies: list[Any]) -> None:
        if len(bodies) == 1:
            await self._queries.enqueue(ENTRYPOINT, _encode(bodies[0]))
        else:
            count = len(bodies)
            payloads: list[bytes | None] = [_encode(body) for body in bodies]
            await self._queries.enqueue([ENTRYPOINT] * count, payloads, [0] * count)

    def work_rate(self, seconds: float) -> Figures:
        """No-op items, one worker."""
        count = self.enough(seconds)
        self.fill(count)
        pace = Pace(seconds, self.warm, count)
        self.run(self._work(lambda _body: pace.count(), A_BATCH))
        self.run(self._queries.clear_queue())
        return self.noted(pace)

    def serve(self, handle: Handle) -> None:
        def work(body: Any) -> bool:
            handle(body)
            return False

        # The batch is what its users get if they say nothing.
        self.run(self._work(work, 10))

    async def _work(self, work: Any, batch: int) -> None:
        """Work until ``work`` says that it is over."""
        connection = await asyncpg.connect(self.where)
        worker = PgQueuer.from_asyncpg_connection(connection)

        @worker.entrypoint(ENTRYPOINT)
        async def handle(job: Job) -> None:
            if work(_decode(job.payload or b"null")):
                worker.shutdown.set()

        await worker.run(batch_size=batch, dequeue_timeout=timedelta(seconds=30))
        await connection.close()
