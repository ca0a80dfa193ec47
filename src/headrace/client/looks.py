"""Looking at queues and items: what to ask of the store, and in what order."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.plans import Plan
from headrace.contract.items import EndedItem, Place, Take, Taking
from headrace.contract.queues import QueueStore
from headrace.core.limits import usage_of
from headrace.core.looking import (
    QueueReport,
    WorkerInfo,
    queue_report,
    stats_of,
    worker_infos,
)
from headrace.core.why import Why, why_ended, why_live
from headrace.model.items import ItemState, State
from headrace.model.names import check_queue
from headrace.model.queues import QueueInfo
from headrace.model.tokens import claim_token

RECENT_MS = 5 * 60_000
SOME = 100
FEW = 5
MOST_QUEUES = 1000
NO_VERSION = -1


def glance(store: QueueStore, queue: str) -> Plan[Taking]:
    """The time of the store, and whether the queue hands out anything.

    A claim under settings that cannot be: nothing is ever handed out to it.
    """
    taking: Taking = yield store.claim_items(
        Take(queue=queue, token=claim_token(), count=1, version=NO_VERSION)
    )
    return taking


def is_held(info: QueueInfo, taking: Taking) -> bool:
    """Whether an update holds the queue; one that is paused need not be."""
    return taking.state == "paused" and not info.is_paused


def all_queues(store: QueueStore) -> Plan[list[str]]:
    """The names of all queues."""
    names: list[str] = []
    while True:
        page: list[QueueInfo] = yield store.queues("", names[-1] if names else "", MOST_QUEUES)
        names += [info.name for info in page]
        if len(page) < MOST_QUEUES:
            return names


def reporting(store: QueueStore, queues: Sequence[str] | None) -> Plan[list[QueueReport]]:
    """All that is known of some queues, or of all."""
    names = (yield from all_queues(store)) if queues is None else queues
    clients = yield store.clients()
    found = []
    for name in names:
        info = yield store.queue_info(check_queue(name))
        taking = yield from glance(store, name)
        [backlog] = yield store.backlogs([name], False)
        workers = yield store.workers(name)
        active = yield store.items(name, State.ACTIVE, 0, SOME)
        samples = yield store.samples(name, taking.now - RECENT_MS, 1)
        found.append(
            queue_report(
                info,
                stats_of(backlog),
                workers,
                clients,
                active,
                samples,
                now=taking.now,
                is_held=is_held(info, taking),
            )
        )
    return found


def working(store: QueueStore, queue: str | None) -> Plan[list[WorkerInfo]]:
    """Workers and where they run."""
    rows = yield store.workers(None if queue is None else check_queue(queue))
    return worker_infos(rows, (yield store.clients()))


def explaining(store: QueueStore, queue: str, item: int | str) -> Plan[Why]:
    """Why an item is not running."""
    found: ItemState | EndedItem = yield store.item(queue, item)
    if isinstance(found, EndedItem):
        return why_ended(found)
    place: Place = yield store.place(queue, found.id)
    info = yield store.queue_info(queue)
    taking = yield from glance(store, queue)
    workers = yield store.workers(queue)
    limits = [usage_of(usage) for usage in (yield store.item_limits(queue, found.id, FEW))]
    return why_live(place, info, workers, is_held=is_held(info, taking), limits=limits)


def finding(store: QueueStore, queue: str, item: int | str) -> Plan[int]:
    """The id of an item that is named by its subject, or by its id."""
    if isinstance(item, int):
        return item
    found: ItemState | EndedItem = yield store.item(queue, item)
    return found.item.id if isinstance(found, EndedItem) else found.id
