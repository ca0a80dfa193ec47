"""Commit one record a call while somebody keeps an old snapshot open.

PostgreSQL may then remove no old version of a row, and a commit may leave some. A snapshot
holds back only its own database, so the same server has another one without any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from bench import ours
from bench.bodies import slices
from bench.context import Contender, Lab
from bench.measure import PostgresMeter, rate

import headrace

TOPIC = "orders"


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("held postgres", _postgres, "postgres", is_held=True)
    yield from lab.offer("not held postgres", _postgres, "postgres", is_held=False)


def _postgres(lab: Lab, key: str, server: ours.Postgres, *, is_held: bool) -> Contender:
    database = server.new_database("held" if is_held else "not_held")
    many = f"{lab.settings.held_commits:,}"
    if is_held:
        print(f"  committing {many} times under a snapshot", flush=True)
        lab.phase.enter_context(_commits_under_snapshot(lab, database))
    hr = headrace.connect(database)
    meter = PostgresMeter(database)
    for client in (hr, meter):
        lab.phase.callback(client.close)
    singles = slices(lab.bodies, 1)

    def sample(turn: int) -> dict[str, float]:
        done = 0

        def commit() -> int:
            nonlocal done
            done += 1
            hr.commit(TOPIC, next(singles)[0])
            return 1

        start = meter.backend_cpu()
        per_second = rate(commit, lab.settings.seconds)
        return {"rate": per_second, "server cpu": (meter.backend_cpu() - start) / done * 1e6}

    where = f"after {many} under a held snapshot" if is_held else "no snapshot held"
    return Contender(key, f"PostgreSQL, {where}", "records/s", server.facts, sample)


@contextmanager
def _commits_under_snapshot(lab: Lab, url: str) -> Iterator[None]:
    singles = slices(lab.bodies, 1)
    # Without waiting for the flush: as many versions of rows, sooner.
    with headrace.connect(url, durability="relaxed") as hr, psycopg.connect(url) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select 1")
        for _ in range(lab.settings.held_commits):
            hr.commit(TOPIC, next(singles)[0])
        yield
