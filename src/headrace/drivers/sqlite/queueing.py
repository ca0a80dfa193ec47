"""Claims on items by a shorter way, where nothing has to come into the line first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.contract.items import Take, Taking
from headrace.contract.op import Steps
from headrace.drivers.relational.queues.claims import refused, taking
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.rows import plain_item_of
from headrace.model.items import rank_of

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore


def claim_at_once(store: SqliteStore, take: Take) -> Callable[[], Steps[Taking]]:
    """The steps of a claim that hopes to find enough in line."""

    def steps() -> Steps[Taking]:
        queue = yield from store.queue_row(take.queue)
        if queue.info.has_channels or take.select is not None:
            return (yield from store.claim_steps(take, is_repeat=False))
        refusal = refused(queue, take)
        if refusal is not None:
            return refusal
        settings = queue.settings
        lease = round(settings.lock_duration * 1000) if take.lease_ms is None else take.lease_ms
        rows = yield store.sql.claim_first(
            queue=queue.id,
            token=take.token,
            worker=take.worker,
            lease=lease,
            count=take.count,
            now=queue.now,
        )
        items = [plain_item_of(row, queue.name) for row in rows]
        items.sort(key=lambda item: (-rank_of(settings.discipline, item.priority), item.position))
        ledger = Ledger(store.sql)
        ledger.count(queue, pending=-len(items), active=len(items), picked=len(items))
        yield from ledger.write()
        if len(items) == take.count:
            return taking(queue, items, None)
        # Planned items that are due, leases to end, or nothing at all.
        rest = yield from store.claim_rest(take, queue, len(items))
        items += rest.items
        items.sort(key=lambda item: (-rank_of(settings.discipline, item.priority), item.position))
        return taking(queue, items, rest.next_due)

    return steps
