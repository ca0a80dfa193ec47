"""pgmq through its own Python client, which brings the SQL: no extension is needed."""

from __future__ import annotations

from typing import Any

import psycopg
from bench.contender import BlockingPlayer, libraries
from pgmq import PGMQueue
from pgmq.install import get_embedded_sql_version, install_pgmq_from_sql

QUEUE = "orders"
HIDDEN_SECONDS = 60


def install(url: str) -> str:
    """pgmq's schema with an empty queue, if it is not there yet; its version."""
    with psycopg.connect(url) as connection:
        found = connection.execute("select to_regnamespace('pgmq')").fetchone()
        if found == (None,):
            connection.rollback()
            install_pgmq_from_sql(conn=connection)
            connection.execute("select pgmq.create(%s)", (QUEUE,))
    return str(get_embedded_sql_version())


class Player(BlockingPlayer):
    durability = "fsync at commit"
    pace = 20_000.0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        sql = install(where)
        self.client = f"{libraries('pgmq', 'psycopg')}, pgmq SQL {sql}"
        self._pgmq = PGMQueue(conn_string=where, init_extension=False)

    def push(self, bodies: list[Any]) -> None:
        if len(bodies) == 1:
            self._pgmq.send(QUEUE, bodies[0])
        else:
            self._pgmq.send_batch(QUEUE, bodies)

    def take(self, size: int) -> int:
        messages = self._pgmq.read_batch(QUEUE, vt=HIDDEN_SECONDS, batch_size=size)
        if messages:
            self._pgmq.delete_batch(QUEUE, [message.msg_id for message in messages])
        return len(messages or ())
