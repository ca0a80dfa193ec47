"""Pushes of documents that no existing item can affect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.items import Pushed
from headrace.contract.op import Steps
from headrace.drivers.sql_common.queues.capacity_check import CapacityCheck
from headrace.drivers.sql_common.queues.ready_channels import allocate_positions
from headrace.drivers.sql_common.queues.rows import QueueRow, plain_values
from headrace.drivers.sql_common.queues.unit_of_work import UnitOfWork
from headrace.drivers.sql_common.statements import MakeStatement, Many
from headrace.model.queues.channels import is_updateable
from headrace.model.queues.items import Document, State, place_of

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class PlainPush:
    """Pushes items without subjects, in one statement for all."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql

    def push(
        self, queue: QueueRow, documents: Sequence[Document], capacity: CapacityCheck | None
    ) -> Steps[Pushed]:
        """Push documents that are in no channel."""
        if not documents:
            return Pushed(())
        news: Counter[str | None] = Counter({None: len(documents)})
        if capacity is not None:
            yield from capacity.before_write(news, Counter())
        values = [
            plain_values(document, queue, document.due_at(queue.now)) for document in documents
        ]
        unit = self._context.storage.unit_of_work()
        ids = yield from self._add(unit, queue, values)
        if capacity is not None:
            yield from capacity.after_write(news, unit.limit_counters.used)
        return Pushed(ids)

    def _add(
        self,
        unit: UnitOfWork,
        queue: QueueRow,
        values: list[dict[str, Any]],
        add: MakeStatement | None = None,
    ) -> Steps[tuple[int, ...]]:
        """Write new items without a subject, and count them; returns their ids."""
        due = [row for row in values if row["state"] == State.PENDING]
        turns = (yield from allocate_positions(self.sql, len(due))) if due else []
        discipline = queue.settings.discipline
        for row, turn in zip(due, turns, strict=True):
            row["position"] = place_of(discipline, turn)
        written = yield Many.of(add or self.sql.add_plain_items, values)
        ids = sorted(row["id"] for row in written)
        if not ids:
            # The ids are consecutive, and the database returns only the last.
            [last] = yield self.sql.last_item()
            ids = list(range(last["id"] - len(values) + 1, last["id"] + 1))
        unit.count(queue, entered=len(ids), pending=len(due), planned=len(ids) - len(due))
        if due:
            unit.announced.add(f"queue/{queue.name}")
        for channel, count in Counter(row.get("key_values") for row in values).items():
            unit.limit_counters.shift(queue, channel, enqueued=count)
        yield from unit.write()
        return tuple(ids)

    def push_to_channels(
        self, queue: QueueRow, documents: Sequence[Document]
    ) -> Steps[Pushed | None]:
        """Push documents for channels, if no existing item can affect any and they replace
        nothing."""
        if any(doc.subject is not None or doc.key_values is None for doc in documents):
            return None
        if any(is_updateable(doc) for doc in documents):
            return None
        unit = self._context.storage.unit_of_work()
        channels = unit.channels
        channels.note(queue)
        for document in documents:
            channels.want(queue, document.key_values)
        yield from channels.lock()
        if channels.are_updateable:
            return None
        values = [
            plain_values(document, queue, document.due_at(queue.now))
            | {
                "channel": channels.id_of(queue, document.key_values),
                "key_values": document.key_values,
            }
            for document in documents
        ]
        ids = yield from self._add(unit, queue, values, self.sql.add_channel_items)
        yield from channels.join(
            (queue, row["key_values"]) for row in values if row["state"] == State.PENDING
        )
        return Pushed(ids)
