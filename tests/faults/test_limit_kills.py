"""Limits while workers are killed and rules change: they are never exceeded, and no slot is lost.

Audit logs outside of the database say what ran when. An item runs for certain from the answer to
its claim until just before its outcome was sent, and no longer than its lease.
"""

import os
import random
from bisect import bisect_right
from typing import Any, NamedTuple

import pytest

import headrace
from faults.children.limit_user import LEASE_MS
from faults.kill_loop import KILLS, SECONDS, storm
from faults.polling import until
from faults.processes import ChildProcesses
from faults.queue_checks import await_silence
from headrace import ANY, KeyValues
from headrace.testing.audit_log import AuditEntry
from headrace.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.timeout(60 + SECONDS)

QUEUES = ["builds", "tests"]
MOST = 5
EACH = 2
LIMIT_USERS = 16 if "HEADRACE_KILLS" in os.environ else 6
LEASE_NS = LEASE_MS * 1_000_000


class Run(NamedTuple):
    """A claim: when it was sent and answered, until when its items ran, and their values."""

    asked: int
    got: int
    until: int
    items: list[dict[str, Any]]

    def count(self, **values: Any) -> int:
        return sum(values.items() <= item.items() for item in self.items)


def runs_of(entries: list[AuditEntry]) -> list[Run]:
    found = []
    for entry in entries:
        if "channels" in entry.intent:
            asked, got = entry.intent["asked"], entry.intent["got"]
            # It is unknown how long the items of a killed process ran.
            end = entry.outcome["until"] if entry.outcome is not None else got
            items = [dict(KeyValues.read(form).plain) for form in entry.intent["channels"]]
            found.append(Run(asked, got, min(end, asked + LEASE_NS), items))
    return sorted(found, key=lambda run: run.asked)


def limits_of(entries: list[AuditEntry]) -> list[tuple[int, int | None]]:
    """From when on the limit had which number for certain. None while that is unknown."""
    changes: list[tuple[int, int | None]] = []
    edits = [entry for entry in entries if "limit" in entry.intent]
    for entry in sorted(edits, key=lambda entry: entry.intent["sent"]):
        changes.append((entry.intent["sent"], None))
        if entry.outcome is not None:
            changes.append((entry.outcome["known"], entry.intent["limit"]))
    return changes


def check_never_above(runs: list[Run], limits: list[tuple[int, int | None]]) -> int:
    """Each claim fitted beside the items that ran all the time. Return how many claims were
    judged."""
    judged = 0
    moments = [moment for moment, _ in limits]
    for run in runs:
        place = bisect_right(moments, run.asked)
        limit = limits[place - 1][1] if place else MOST
        is_known = limit is not None and place == bisect_right(moments, run.got)
        beside = [
            other
            for other in runs
            if other is not run and other.got <= run.asked and other.until >= run.got
        ]
        if is_known and run.count(os="mac"):
            running = sum(other.count(os="mac") for other in beside)
            assert running + run.count(os="mac") <= limit, (run, limit, beside)
            judged += 1
        for item in run.items:
            running = sum(other.count(**item) for other in beside)
            assert running + run.count(**item) <= EACH, (run, item, beside)
    return judged


def test_limits_hold_while_workers_are_killed(
    durable_url: str, postgres: PrivatePostgres, processes: ChildProcesses, rng: random.Random
) -> None:
    """Two rules over two queues, one of them changing all the time."""
    with headrace.connect(durable_url) as hr:
        for name in QUEUES:
            queue = hr.queues.create(
                name, max_attempts=10**6, max_crashes=10**6, reject_delay=0, exist_ok=True
            )
            for number in range(8):
                channel = {"os": "mac" if number < 6 else "linux", "branch": number % 4}
                queue.push_many(range(10), channel=channel)
        hr.limits.create({"os": "mac"}, MOST, name="macs")
        hr.limits.create({"branch": ANY}, 1, name="branches")
        hr.limits.override("branches", {"branch": ANY, "os": ANY}, EACH)
    victims = ["limit_user"] * LIMIT_USERS + ["limit_changer"]
    places: list[dict[str, Any]] = [{"url": durable_url, "queues": QUEUES}] * LIMIT_USERS
    places.append({"url": durable_url, "rule": "macs", "limits": [1, 2, 3, MOST]})
    entries = storm(processes, rng, victims, places, kills=min(KILLS, 30 * max(KILLS // 60, 1)))
    await_silence(postgres)
    runs = runs_of(entries)
    judged = check_never_above(runs, limits_of(entries))
    assert judged >= 3, "too few claims under a limit that is known"
    with headrace.connect(durable_url) as hr:
        hr.limits.update("macs", 3)
        until(lambda: _is_over(hr), "the leases of the dead")
        # No slot is lost, and none was granted twice.
        claimed = [len(hr.queue(name).claim(99)) for name in QUEUES]
        [macs] = hr.limits.usage("macs", holders=99)
        assert (macs.used, len(macs.holders)) == (3, 3)
        usage = hr.limits.usage("branches", holders=99)
        assert all(use.used == len(use.holders) <= EACH for use in usage)
        assert sum(claimed) == len({holder.id for use in usage for holder in use.holders})


def _is_over(hr: headrace.Headrace) -> bool:
    for name in QUEUES:
        hr._store.run(hr._store.queues.expire_leases(name, 1000))
    return not hr.limits.usage("macs") and not hr.limits.usage("branches")
