"""New settings for a queue under load: stop its workers everywhere, change, start them again."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from headrace.client.workflows import Plan
from headrace.client.workflows.inspection import probe
from headrace.contract.items import WorkerRow
from headrace.contract.store import Session
from headrace.core.views import WorkerInfo, is_alive, worker_infos
from headrace.errors import UpdateRefused
from headrace.model.checks import seconds
from headrace.model.fields import shown
from headrace.model.names import writable_queue
from headrace.model.queues.settings import QueueChanges, QueueInfo, changed

FIRST_PAUSE = 0.005
MAX_PAUSE_SECONDS = 0.1
# A freeze that is never ended must not outlive the update by much.
MARGIN_MS = 5000


class UpdateReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an update of a queue's settings did.

    ``stopped`` are the workers that stood still when the settings changed. ``unanswered`` did
    not stop in time: they finish the items they have, but get no more items until they
    know the new settings. ``waited`` is in seconds.
    """

    queue: QueueInfo
    is_changed: bool
    stopped: tuple[WorkerInfo, ...] = ()
    unanswered: tuple[WorkerInfo, ...] = ()
    waited: float = 0.0


def update_settings(
    store: Session, name: str, changes: QueueChanges, time_limit: float, *, strict: bool
) -> Plan[UpdateReport]:
    """Stop, wait, change, start."""
    limit = seconds("time_limit", time_limit)
    info: QueueInfo = yield store.queues.info(writable_queue(name))
    # Refused before any worker is stopped for it.
    if changed(info.settings, changes) == info.settings:
        return UpdateReport(queue=info, is_changed=False)
    start = time.monotonic()
    try:
        before: list[WorkerRow] = yield store.queues.freeze(
            name, round(limit * 1000) + MARGIN_MS, "stopped"
        )
        asked, running = yield from _standstill(store, name, before, limit)
        clients = (yield store.queues.clients()) if before else []
        late = tuple(worker_infos(running, clients))
        if late and strict:
            raise UpdateRefused(
                f"queue {shown(name)} is not changed: after {limit:g} s these workers had not stopped: "
                f"{', '.join(map(str, late))}. Wait for them, or stop them, or use strict=False.",
                queue=name,
                unanswered=late,
            )
        info = yield store.queues.update(name, changes)
    except BaseException:
        yield store.queues.freeze(name, 0, "running")
        raise
    stopped = [row for row in asked if row.id not in {row.id for row in running}]
    return UpdateReport(
        queue=info,
        is_changed=True,
        stopped=tuple(worker_infos(stopped, clients)),
        unanswered=late,
        waited=time.monotonic() - start,
    )


def _standstill(
    store: Session, name: str, before: list[WorkerRow], limit: float
) -> Plan[tuple[list[WorkerRow], list[WorkerRow]]]:
    """Wait until the live workers have stopped: those asked to, and those still running."""
    if not before:
        return [], []
    start = time.monotonic()
    now = (yield from probe(store, name)).now
    asked = [row for row in before if is_alive(row, now)]
    running = _running(asked)
    pause = FIRST_PAUSE
    while running and (left := start + limit - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)
        rows: list[WorkerRow] = yield store.queues.workers(name)
        passed = round((time.monotonic() - start) * 1000)
        there = [row for row in rows if is_alive(row, now + passed)]
        known = {row.id for row in asked}
        asked += [row for row in there if row.id not in known]
        running = _running(there)
    return asked, running


def _running(rows: Iterable[WorkerRow]) -> list[WorkerRow]:
    return [row for row in rows if row.current != "stopped"]
