"""Commit many records a call, one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench import ours
from bench.bodies import slices
from bench.context import Contender, Facts, Lab
from bench.measure import rate
from bench.peers.pipeproc import PipeProc
from bench.peers.redis_streams import RedisServer

import headrace


def thousand(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("commit-1000 postgres", _postgres, "postgres", size=1000)
    yield from lab.offer("commit-1000 sqlite safe", _sqlite, size=1000)
    yield from lab.offer("commit-1000 redis", _redis, "redis", size=1000, in_c=False)
    yield from lab.offer("commit-1000 redis hiredis", _redis, "redis", size=1000, in_c=True)
    yield from lab.offer("commit-1000 nats", _nats, "nats", size=1000)
    yield from lab.offer("commit-1000 pipeproc", _pipeproc, "pipeproc", size=1000)


def hundred(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("commit-100 postgres", _postgres, "postgres", size=100)
    yield from lab.offer("commit-100 redis aof", _redis, "redis-aof", size=100, in_c=False)
    yield from lab.offer("commit-100 redis aof hiredis", _redis, "redis-aof", size=100, in_c=True)


def _postgres(lab: Lab, key: str, server: ours.Postgres, *, size: int) -> Contender:
    return committing(lab, key, "PostgreSQL", server.at(f"commit_{size}"), server.facts, size)


def _sqlite(lab: Lab, key: str, *, size: int) -> Contender:
    url = ours.sqlite_url(lab, f"commit-{size}")
    return committing(lab, key, "SQLite safe", url, ours.sqlite_facts("safe"), size)


def committing(lab: Lab, key: str, store: str, url: str, facts: Facts, size: int) -> Contender:
    """Headrace's own, at a URL."""
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)
    batches = slices(lab.bodies, size)

    def sample(turn: int) -> dict[str, float]:
        topic = f"orders-{turn}"
        return {
            "rate": rate(lambda: len(hr.commit_many(topic, next(batches))), lab.settings.seconds)
        }

    return Contender(key, f"{store}, commit {size} a call", "records/s", facts, sample)


def _redis(lab: Lab, key: str, server: RedisServer, *, size: int, in_c: bool) -> Contender:
    def stream(name: str) -> Any:
        return server.stream(name, in_c=in_c)

    return _streaming(lab, key, stream, server.facts(in_c=in_c), size)


def _nats(lab: Lab, key: str, server: Any, *, size: int) -> Contender:
    return _streaming(lab, key, server.stream, server.facts, size)


def _streaming(
    lab: Lab, key: str, stream: Callable[[str], Any], facts: Facts, size: int
) -> Contender:
    batches = slices(lab.bodies, size)

    def sample(turn: int) -> dict[str, float]:
        log = stream(f"orders-{size}-{turn}-{len(key)}")
        try:
            return {"rate": rate(lambda: log.append(next(batches)), lab.settings.seconds)}
        finally:
            log.drop()

    title = f"{facts.server.partition(' ')[0]}, append {size} a call"
    return Contender(key, title, "records/s", facts, sample)


def _pipeproc(lab: Lab, key: str, peer: PipeProc, *, size: int) -> Contender:
    def sample(turn: int) -> dict[str, float]:
        topic = f"orders-{size}-{turn}"
        return {"rate": peer.rate("commit", topic, size, lab.settings.seconds)}

    return Contender(key, f"PipeProc, commit {size} a call", "records/s", peer.facts, sample)
