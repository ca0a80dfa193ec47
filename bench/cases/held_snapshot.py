"""Commit one record a call while somebody keeps an old snapshot open.

PostgreSQL may then remove no old version of the topic's head row, and every commit makes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from bench import ours
from bench.bodies import slices
from bench.lab import Contender, Lab
from bench.measure import PostgresMeter, rate

import headrace


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("held postgres", _postgres, "postgres")


def _postgres(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    hr = headrace.connect(server.at("held"))
    relaxed = headrace.connect(server.at("held"), durability="relaxed")
    meter = PostgresMeter(server.url)
    for client in (hr, relaxed, meter):
        lab.phase.callback(client.close)
    singles = slices(lab.bodies, 1)

    def sample(turn: int) -> dict[str, float]:
        topic = f"orders-{turn}"

        def commit() -> int:
            hr.commit(topic, next(singles)[0])
            return 1

        before, cpu_before = _measured(commit, lab, meter)
        with _snapshot(server.url):
            # Without the wait for the disk: as many versions of the row, sooner.
            for _ in range(lab.settings.held_commits):
                relaxed.commit(topic, next(singles)[0])
            after, cpu_after = _measured(commit, lab, meter)
        return {
            "after": after,
            "before": before,
            "cpu before": cpu_before,
            "cpu after": cpu_after,
        }

    title = f"PostgreSQL, one caller, after {lab.settings.held_commits:,} under a snapshot"
    return Contender(key, title, "records/s", server.facts, sample)


def _measured(commit: object, lab: Lab, meter: PostgresMeter) -> tuple[float, float]:
    """Commits a second, and CPU microseconds of the server for one."""
    done = 0

    def counted() -> int:
        nonlocal done
        done += 1
        return commit()  # type: ignore[operator]

    start = meter.backend_cpu()
    per_second = rate(counted, lab.settings.seconds)
    return per_second, (meter.backend_cpu() - start) / done * 1e6


@contextmanager
def _snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select 1")
        yield
