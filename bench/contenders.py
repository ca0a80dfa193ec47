"""Who plays in the cases of queues: modules, packages and servers, by name.

Peers are pinned, so that two runs compare the same things; what they depend on is what pip
finds for them.
"""

from __future__ import annotations

import sqlite3
from importlib.metadata import version

from bench import ours
from bench.context import Facts, Lab
from bench.launcher import Kind, Process, playing
from bench.peers.redis_streams import RedisServer

# Ours: its part in C is shared, and fits no other version.
_PSYCOPG = f"psycopg[binary]=={version('psycopg')}"
_PGMQ = ("pgmq==1.1.4", "asyncpg==0.32.0", _PSYCOPG)

KINDS = {
    "headrace": Kind("bench.queue_ours", server="postgres"),
    "headrace-sqlite": Kind("bench.queue_ours"),
    "pgmq": Kind("bench.peers.pgmq", _PGMQ, "postgres"),
    "pgmq-asyncpg": Kind("bench.peers.pgmq_asyncpg", _PGMQ, "postgres"),
    "pgqueuer": Kind("bench.peers.pgqueuer", ("pgqueuer==1.6.0", "asyncpg==0.32.0"), "postgres"),
    "bare": Kind("bench.peers.bare_rows", ("pgqueuer==1.6.0", "asyncpg==0.32.0"), "postgres"),
    "procrastinate": Kind(
        "bench.peers.procrastinate", ("procrastinate==3.10.0", _PSYCOPG), "postgres"
    ),
    "litequeue": Kind("bench.peers.litequeue", ("litequeue==0.9",)),
    "huey": Kind("bench.peers.huey", ("huey==3.5.4",)),
    "persist-queue": Kind("bench.peers.persist_queue", ("persist-queue==1.1.0",)),
    "redis": Kind("bench.peers.redis_group", server="redis"),
    "dramatiq": Kind("bench.peers.dramatiq", ("dramatiq[redis]==2.2.1",), "redis"),
    "taskiq": Kind("bench.peers.taskiq", ("taskiq==0.13.0", "taskiq-redis==1.2.4"), "redis"),
    "celery": Kind("bench.peers.celery", ("celery[redis]==5.7.0",), "redis"),
}

TITLES = {
    "bare": "bare rows",
    "headrace": "PostgreSQL",
    "headrace-sqlite": "SQLite relaxed",
    "pgmq-asyncpg": "pgmq by asyncpg",
    "redis": "Redis Streams",
    "huey": "huey on SQLite",
}


class Place:
    """Where one contender of one case keeps its queue: nobody else is there."""

    def __init__(self, lab: Lab, name: str, case: str) -> None:
        self._lab = lab
        self._name = name
        self._kind = KINDS[name]
        self.durability = ""  # else the player says what it has
        if self._kind.server == "postgres":
            postgres: ours.Postgres = lab.peer("postgres")
            self.where = postgres.new_database(f"{name}_{case}".replace("-", "_"))
            self.server = postgres.version
        elif self._kind.server == "redis":
            redis: RedisServer = lab.peer("redis")
            self.where = f"redis://127.0.0.1:{redis.port}/{list(KINDS).index(name)}"
            self.server, self.durability = redis.version, redis.durability
        else:
            self.where = str(lab.folder / f"{name}-{case}")
            self.server = f"SQLite {sqlite3.sqlite_version}"
        if name == "headrace-sqlite":
            self.where = f"{ours.sqlite_url(lab, f'queue-{case}')}?durability=relaxed"

    @property
    def title(self) -> str:
        return TITLES.get(self._name, self._name)

    def player(self) -> Process:
        """One more process, until the phase is over."""
        return self._lab.phase.enter_context(playing(self._lab, self._name, self._kind, self.where))

    def facts(self, process: Process, durability: str = "") -> Facts:
        survives = durability or process.durability or self.durability
        return Facts(survives, process.client, self.server)
