"""Read a topic 1000 records at a time, each read following on from the last, parsed."""

from __future__ import annotations

from collections.abc import Iterator

from bench import ours
from bench.bodies import slices
from bench.context import Contender, Facts, Lab
from bench.measure import rate
from bench.peers.pipeproc import PipeProc
from bench.peers.redis_streams import RedisServer

import headrace

RECORDS = 50_000
# Not a divisor of the read's size, so that reads do not happen to end where rows end.
A_COMMIT = 700
A_READ = 1000


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("read postgres", _postgres, "postgres")
    yield from lab.offer("read sqlite", _sqlite)
    yield from lab.offer("read redis", _redis, "redis", in_c=False)
    yield from lab.offer("read redis hiredis", _redis, "redis", in_c=True)
    yield from lab.offer("read pipeproc", _pipeproc, "pipeproc")


def _postgres(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    return reading(lab, key, "PostgreSQL", server.at("read"), server.facts)


def _sqlite(lab: Lab, key: str) -> Contender:
    return reading(lab, key, "SQLite", ours.sqlite_url(lab, "read"), ours.sqlite_facts("safe"))


def reading(lab: Lab, key: str, store: str, url: str, facts: Facts) -> Contender:
    """Headrace's own, at a URL."""
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)
    batches = slices(lab.bodies, A_COMMIT)
    for _ in range(RECORDS // A_COMMIT):
        hr.commit_many("orders", next(batches))

    def sample(turn: int) -> dict[str, float]:
        last: str | None = None

        def read() -> int:
            nonlocal last
            found = hr.range("orders", last, exclusive=True, limit=A_READ)
            last = found[-1].id if len(found) == A_READ else None
            return len(found)

        return {"rate": rate(read, lab.settings.seconds)}

    return Contender(key, f"{store}, range of {A_READ}", "records/s", facts, sample)


def _redis(lab: Lab, key: str, server: RedisServer, *, in_c: bool) -> Contender:
    stream = server.stream(f"read-{in_c}", in_c=in_c)
    batches = slices(lab.bodies, A_COMMIT)
    for _ in range(RECORDS // A_COMMIT):
        stream.append(next(batches))

    def sample(turn: int) -> dict[str, float]:
        last: bytes | None = None

        def read() -> int:
            nonlocal last
            found, last = stream.read(last, A_READ)
            return len(found)

        return {"rate": rate(read, lab.settings.seconds)}

    facts = server.facts(in_c=in_c)
    return Contender(key, f"Redis, XRANGE of {A_READ}", "records/s", facts, sample)


def _pipeproc(lab: Lab, key: str, peer: PipeProc) -> Contender:
    peer.fill("read", RECORDS)

    def sample(turn: int) -> dict[str, float]:
        return {"rate": peer.rate("range", "read", A_READ, lab.settings.seconds)}

    return Contender(key, f"PipeProc, range of {A_READ}", "records/s", peer.facts, sample)
