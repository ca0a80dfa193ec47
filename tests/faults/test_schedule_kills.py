"""Processes that fire schedules, killed at random moments: firings equal due times."""

import random
from collections import Counter

import pytest

import headrace
from faults.kill_loop import KILLS, SECONDS, storm
from faults.processes import ChildProcesses
from headrace import Commit, Push
from headrace.model.schedules.actions import firing_id
from headrace.testing.audit_log import AuditEntry
from headrace.testing.contract.queue_base import StoreOps

PROCESSES = 8
EVERY_MS = 100
COMMITS = [f"commit-{n}" for n in range(4)]
PUSHES = [f"push-{n}" for n in range(4)]
TOPIC, QUEUE = "fired", "due"

pytestmark = pytest.mark.timeout(60 + SECONDS)


def add_all(hr: headrace.Headrace) -> None:
    for name in COMMITS:
        hr.schedules.add(name, every=EVERY_MS / 1000, misfire="all", commit=Commit(TOPIC, {}))
    for name in PUSHES:
        push = Push(QUEUE, {})
        hr.schedules.add(name, every=EVERY_MS / 1000, misfire="all", overlap="allow", push=push)
    hr.queues.create(QUEUE)
    # It fails each time, and stops no other; its time is never skipped by that alone.
    hr.schedules.add("failing", every=EVERY_MS / 1000, pause="nowhere")


def due_times(hr: headrace.Headrace) -> list[str]:
    """The names of all firings that must have happened, by what the schedules say of themselves."""
    names = []
    for name in COMMITS + PUSHES:
        schedule = StoreOps(hr).schedules.info(name)
        assert schedule.skipped == type(schedule.skipped)()
        assert schedule.prev_due is not None
        dues = range(schedule.anchor + EVERY_MS, schedule.prev_due + 1, EVERY_MS)
        assert schedule.fires == len(dues)
        names += [firing_id(name, due) for due in dues]
    return names


def acknowledged(entries: list[AuditEntry]) -> list[str]:
    return [
        firing_id(name, due)
        for entry in entries
        if entry.outcome is not None
        for name, due in entry.outcome["fired"]
        if name != "failing"
    ]


@pytest.mark.parametrize("kills", [12, pytest.param(KILLS, marks=pytest.mark.faults, id="many")])
def test_killed_processes_skip_and_repeat_no_due_time(
    durable_url: str, processes: ChildProcesses, rng: random.Random, kills: int
) -> None:
    with headrace.connect(durable_url) as hr:
        add_all(hr)
        victims, places = ["schedule_firer"] * PROCESSES, [{"url": durable_url}] * PROCESSES
        entries = storm(processes, rng, victims, places, kills)
        # Waits for any COMMIT on which the server still works for a dead client.
        for name in COMMITS + PUSHES:
            hr.schedules.pause(name)
        records = Counter(record.headers["schedule"] for record in hr.range(TOPIC))
        items = Counter(item.subject for item in hr.queue(QUEUE).items(limit=10_000))
        happened = records + items
        assert set(happened.values()) == {1}
        assert sorted(happened) == sorted(due_times(hr))
        ledger = Counter(acknowledged(entries))
        assert set(ledger.values()) == {1}
        assert set(ledger) <= set(happened)
        assert hr.schedules.get("failing").error is not None
