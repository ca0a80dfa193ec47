"""Looking at queues and items: what to ask of the store, and in what order."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.workflows import Plan
from headrace.contract.items import ClaimRequest, ClaimResponse, FinishedItem, QueuePosition
from headrace.contract.missing_part import has_part
from headrace.contract.store import Session
from headrace.core.limits import LimitUsage, usage_of
from headrace.core.views import (
    QueueReport,
    WorkerInfo,
    queue_report,
    stats_of,
    worker_infos,
)
from headrace.core.why import Why, why_ended, why_live
from headrace.model.names import check_queue
from headrace.model.queues.items import ItemState, State
from headrace.model.queues.settings import QueueInfo
from headrace.model.tokens import claim_token

RECENT_MS = 5 * 60_000
DEFAULT_PAGE = 100
DEFAULT_SAMPLES = 5
MAX_QUEUES = 1000
NO_VERSION = -1


def probe(store: Session, queue: str) -> Plan[ClaimResponse]:
    """The time of the store, and whether items of the queue can be claimed.

    A claim with a version of the settings that never exists: it claims nothing.
    """
    response: ClaimResponse = yield store.queues.claim(
        ClaimRequest(queue=queue, token=claim_token(), count=1, version=NO_VERSION)
    )
    return response


def is_frozen(info: QueueInfo, response: ClaimResponse) -> bool:
    """Whether an update has frozen the queue; a paused queue may not be."""
    return response.state == "paused" and not info.is_paused


def all_queues(store: Session) -> Plan[list[str]]:
    """The names of all queues."""
    names: list[str] = []
    while True:
        page: list[QueueInfo] = yield store.queues.list("", names[-1] if names else "", MAX_QUEUES)
        names += [info.name for info in page]
        if len(page) < MAX_QUEUES:
            return names


def report_queues(store: Session, queues: Sequence[str] | None) -> Plan[list[QueueReport]]:
    """All that is known of some queues, or of all."""
    names = (yield from all_queues(store)) if queues is None else queues
    clients = yield store.queues.clients()
    found = []
    for name in names:
        info = yield store.queues.info(check_queue(name))
        response = yield from probe(store, name)
        [backlog] = yield store.queues.counts([name], False)
        workers = yield store.queues.workers(name)
        active = yield store.queues.items(name, State.ACTIVE, 0, DEFAULT_PAGE)
        samples = yield store.queues.samples(name, response.now - RECENT_MS, 1)
        found.append(
            queue_report(
                info,
                stats_of(backlog),
                workers,
                clients,
                active,
                samples,
                now=response.now,
                is_frozen=is_frozen(info, response),
            )
        )
    return found


def list_workers(store: Session, queue: str | None) -> Plan[list[WorkerInfo]]:
    """Workers and where they run."""
    rows = yield store.queues.workers(None if queue is None else check_queue(queue))
    return worker_infos(rows, (yield store.queues.clients()))


def explain(store: Session, queue: str, item: int | str) -> Plan[Why]:
    """Why an item is not running."""
    found: ItemState | FinishedItem = yield store.queues.item(queue, item)
    if isinstance(found, FinishedItem):
        return why_ended(found)
    place: QueuePosition = yield store.queues.position(queue, found.id)
    info = yield store.queues.info(queue)
    response = yield from probe(store, queue)
    workers = yield store.queues.workers(queue)
    limits: list[LimitUsage] = []
    if has_part(store, "limits"):
        rows = yield store.limits.of_item(queue, found.id, DEFAULT_SAMPLES)
        limits = [usage_of(row) for row in rows]
    return why_live(place, info, workers, is_frozen=is_frozen(info, response), limits=limits)


def find_item(store: Session, queue: str, item: int | str) -> Plan[int]:
    """The id of an item that is named by its subject, or by its id."""
    if isinstance(item, int):
        return item
    found: ItemState | FinishedItem = yield store.queues.item(queue, item)
    return found.item.id if isinstance(found, FinishedItem) else found.id
