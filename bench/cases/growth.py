"""Claim and ack in a large topic and in a small one: CPU and pages, not time.

The two topics are in stores of their own, or they would share their indexes. The same
large topic then serves to show how much memory it takes to iterate over it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from bench import ours
from bench.context import Contender, Facts, Lab
from bench.measure import PostgresMeter, pages_read

import headrace

TOPIC = "orders"
CLAIMS = 300
WARM_CLAIMS = 20
A_CLAIM = 10
FILL_SECONDS = 900
ITERATE_SECONDS = 900

Url = Callable[[str], str]


def contenders(lab: Lab) -> Iterator[Contender]:
    many, few = lab.settings.records, lab.settings.few_records
    _fill_all(lab, {"many": many, "few": few})
    for size, count in (("many", many), ("few", few)):
        yield from lab.offer(
            f"claim {size} postgres", _postgres_claims, "postgres", size=size, count=count
        )
        yield from lab.offer(f"claim {size} sqlite", _sqlite_claims, size=size, count=count)
    yield from lab.offer("iterate postgres", _postgres_memory, "postgres")
    yield from lab.offer("iterate sqlite", _sqlite_memory)


def _fill_all(lab: Lab, sizes: dict[str, int]) -> None:
    """Fill all stores in parallel, each by a process of its own."""
    print(f"  filling topics with {sizes['many']:,} records", flush=True)
    urls = {size: [ours.sqlite_url(lab, size)] for size in sizes}
    try:
        server = lab.peer("postgres")
    except RuntimeError:
        server = None  # its contenders say that it is missing
    for size in sizes if server else ():
        urls[size].append(server.at(size))
    fillers = [
        subprocess.Popen([sys.executable, "-m", "bench.fill", url, TOPIC, str(sizes[size])])
        for size in sizes
        for url in urls[size]
    ]
    try:
        give_up = time.monotonic() + FILL_SECONDS
        for filler in fillers:
            if filler.wait(max(0.1, give_up - time.monotonic())):
                raise RuntimeError("a topic could not be filled")
    finally:
        for filler in fillers:
            filler.kill()
            filler.wait()
    if server:
        # What autovacuum and the checkpointer would otherwise do in mid-measurement.
        server.execute("vacuum analyze")
        server.execute("checkpoint")


def _postgres_claims(
    lab: Lab, key: str, server: ours.Postgres, *, size: str, count: int
) -> Contender:
    meter = PostgresMeter(server.url)
    lab.phase.callback(meter.close)

    def sample(turn: int) -> dict[str, float]:
        with meter.touching(size) as touched, headrace.connect(server.at(size)) as hr:
            cpu = _claim_and_ack(hr, turn, count, meter.backend_cpu)
        return {"cpu": cpu, "pages": touched[0] / (CLAIMS + WARM_CLAIMS)}

    facts = server.facts._replace(durability="claim relaxed, ack fsync")
    title = f"PostgreSQL, claim + ack among {count:,}"
    return Contender(key, title, "µs CPU", facts, sample)


def _sqlite_claims(lab: Lab, key: str, *, size: str, count: int) -> Contender:
    url = ours.sqlite_url(lab, size)

    def sample(turn: int) -> dict[str, float]:
        with headrace.connect(url) as hr:
            before = pages_read()
            cpu = _claim_and_ack(hr, turn, count, lambda: 0.0)
            touched = pages_read() - before
        return {"cpu": cpu, "pages": touched / (CLAIMS + WARM_CLAIMS)}

    facts = ours.sqlite_facts("safe")._replace(durability="claim relaxed, ack synced")
    return Contender(key, f"SQLite, claim + ack among {count:,}", "µs CPU", facts, sample)


def _claim_and_ack(
    hr: headrace.Headrace, turn: int, count: int, server_cpu: Callable[[], float]
) -> float:
    """CPU microseconds of one claim of ten records with its ack, client and server together."""
    proc = hr.procs.create(f"reader-{turn}", TOPIC, offset=f":{count // 2}")

    def turns(times: int) -> None:
        for _ in range(times):
            claim = proc.claim(A_CLAIM)
            assert claim is not None
            claim.ack()

    turns(WARM_CLAIMS)
    start = time.process_time() + server_cpu()
    turns(CLAIMS)
    spent = time.process_time() + server_cpu() - start
    proc.delete()
    return spent / CLAIMS * 1e6


def _postgres_memory(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    return _memory(lab, key, "PostgreSQL", server.at("many"), server.facts)


def _sqlite_memory(lab: Lab, key: str) -> Contender:
    url = ours.sqlite_url(lab, "many")
    return _memory(lab, key, "SQLite", url, ours.sqlite_facts("safe"))


def _memory(lab: Lab, key: str, store: str, url: str, facts: Facts) -> Contender:
    notes: list[str] = []

    def sample(turn: int) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-m", "bench.cases.iterate", url, TOPIC],
            capture_output=True,
            text=True,
            timeout=ITERATE_SECONDS,
            check=True,
        )
        seen = json.loads(done.stdout)
        if seen["records"] != lab.settings.records:
            raise RuntimeError(f"iterated over {seen['records']} records")
        tenth, last = seen["over"][0], seen["over"][-1]
        rate = seen["records"] / seen["seconds"]
        notes.append(f"{tenth:.0f} MB after a tenth, {last:.0f} at the end; {rate:,.0f} records/s")
        return {"over": seen["peak"]}

    title = f"{store}, iterate over {lab.settings.records:,}"
    return Contender(key, title, "MB", facts, sample, rounds=1, note=lambda: "; ".join(notes))
