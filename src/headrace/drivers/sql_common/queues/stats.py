"""Counts and series of queues in SQL, and the maintenance of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.contract.items import COUNTED, Counts, LoggedError, MetricSample, QueueCounts
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow, queue_of
from headrace.drivers.sql_common.queues.unit_of_work import STATES
from headrace.model.failures import Failure
from headrace.model.limits.rules import ALL
from headrace.model.maintenance import Tended
from headrace.model.queues.channels import GONE_SECONDS, SELECTION_SECONDS
from headrace.model.queues.items import State

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

SAMPLE_MS = 60_000
# Empty channels are kept for this long from when they were made, since most are used again.
IDLE_SECONDS = 3600
MAX_QUEUES = 1_000_000
_decode_counts = msgspec.json.Decoder(Counts).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
_GAUGES = tuple(STATES.values())


class QueueCounters:
    """Counts, series and maintenance."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def counts(self, queues: Sequence[str] | None, computed: bool) -> Op[list[QueueCounts]]:
        return Op("queues.counts", lambda: self._backlogs(queues, computed=computed), writes=False)

    def _backlogs(self, names: Sequence[str] | None, *, computed: bool) -> Steps[list[QueueCounts]]:
        found = []
        for queue in (yield from self._chosen(names)):
            found.append((yield from self._backlog(queue, computed=computed)))
        return found

    def _chosen(self, names: Sequence[str] | None) -> Steps[list[QueueRow]]:
        if names is None:
            rows = yield self.sql.list_queues(
                prefix="", after="", limit=MAX_QUEUES, now=self.clock()
            )
            return [queue_of(row) for row in rows]
        chosen = []
        for name in sorted(set(names)):
            chosen.append((yield from self._context.storage.queue_row(name)))
        return chosen

    def _backlog(self, queue: QueueRow, *, computed: bool) -> Steps[QueueCounts]:
        keeps = queue.settings.metrics
        running: dict[str, int] = {}
        if keeps:
            [row] = yield self.sql.sum_tallies(queue=queue.id)
            running = {name: row[name] for name in COUNTED}
        if computed or not keeps:
            running |= yield from self._counted(queue)
        [oldest] = yield self.sql.oldest_due(queue=queue.id, now=queue.now)
        times = [time for time in (oldest["pending"], oldest["planned"]) if time is not None]
        counts = Counts(**running)
        return QueueCounts(
            queue=queue.name,
            counts=counts,
            due=counts.pending + oldest["overdue"],
            oldest_due_ms=max(queue.now - min(times), 0) if times else None,
            is_computed=computed or not keeps,
        )

    def _counted(self, queue: QueueRow) -> Steps[dict[str, int]]:
        """How many items there are in each state, counted."""
        live = yield self.sql.count_items(queue=queue.id)
        ended = yield self.sql.count_finished(queue=queue.id)
        numbers = dict.fromkeys(_GAUGES, 0)
        for row in [*live, *ended]:
            numbers[STATES[State(row["state"])]] = row["count"]
        return numbers

    def consolidate(self, queues: Sequence[str] | None) -> Op[list[QueueCounts]]:
        def steps() -> Steps[list[QueueCounts]]:
            for queue in (yield from self._chosen(queues)):
                if queue.settings.metrics:
                    yield from self._context.stats.recount(queue)
            return (yield from self._backlogs(queues, computed=True))

        return Op("queues.consolidate", steps, repeatable=True)

    def recount(self, queue: QueueRow) -> Steps[None]:
        # Both counts come from one snapshot: a push, claim or settlement between them would make
        # the difference wrong.
        [row] = yield self.sql.compare_tallies(queue=queue.id)
        unit = self._context.storage.unit_of_work()
        unit.count(queue, **{name: row[name] for name in _GAUGES})
        yield from unit.write()

    def logged_errors(
        self, queue: str, item: int | None, before: int, limit: int
    ) -> Op[list[LoggedError]]:
        def steps() -> Steps[list[LoggedError]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.list_errors(queue=row.id, item=item, before=before, limit=limit)
            return [
                LoggedError(
                    id=error["id"],
                    at=error["at"],
                    item=error["item"],
                    subject=error["subject"],
                    attempt=error["attempt"],
                    worker=error["worker"],
                    failure=_decode_failure(error["failure"]),
                )
                for error in found
            ]

        return Op("queues.logged_errors", steps, writes=False)

    def samples(self, queue: str, since: int, limit: int) -> Op[list[MetricSample]]:
        def steps() -> Steps[list[MetricSample]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.list_samples(queue=row.id, since=since, limit=limit)
            return [MetricSample(at=r["at"], counts=_decode_counts(r["counts"])) for r in found]

        return Op("queues.samples", steps, writes=False)

    def maintain(self, queue: str, limit: int) -> Op[Tended]:
        def steps() -> Steps[Tended]:
            row = yield from self._context.storage.open_queue(queue)
            expired = yield from self._context.settlements.end_leases(row, limit)
            # Also without running counts: completions leave receipts among them.
            yield self.sql.fold_tallies(queue=row.id, now=self.clock())
            if row.settings.metrics:
                yield from self._sample(row)
            removed = yield from self._remove_old(row, limit)
            return Tended(queue, removed, len(expired.items), expired.died)

        return Op("queues.maintain", steps)

    def _sample(self, queue: QueueRow) -> Steps[None]:
        [last] = yield self.sql.last_sample(queue=queue.id)
        if queue.now < (last["at"] or 0) + SAMPLE_MS:
            return
        backlog = yield from self._backlog(queue, computed=False)
        counts = msgspec.json.encode(backlog.counts).decode()
        yield self.sql.add_sample(queue=queue.id, at=queue.now, counts=counts)

    def _remove_old(self, queue: QueueRow, limit: int) -> Steps[int]:
        settings, id, gone = queue.settings, queue.id, 0
        unit = self._context.storage.unit_of_work()
        kept = {State.COMPLETED: settings.keep, State.DEAD: settings.keep_dead}
        for state, keep in kept.items():
            if keep in ("all", None):
                continue
            seconds = 0.0 if keep == "none" else float(keep or 0)
            found = yield self.sql.drop_finished(
                queue=id, state=int(state), at=_before(queue, seconds), limit=limit
            )
            unit.count(queue, **{STATES[state]: -len(found)})
            gone += len(found)
        yield from unit.write()
        at = _before(queue, settings.errors_retention)
        gone += len((yield self.sql.drop_errors(queue=id, at=at, limit=limit)))
        at = _before(queue, settings.metrics_retention)
        gone += len((yield self.sql.drop_samples(queue=id, at=at, limit=limit)))
        at = _before(queue, GONE_SECONDS)
        gone += len((yield self.sql.drop_deleted_items(queue=id, at=at, limit=limit)))
        if queue.info.has_channels:
            yield from self._context.channels.drop_idle_channels(
                queue, _before(queue, IDLE_SECONDS), limit
            )
            yield self.sql.drop_delays(queue=id, now=queue.now)
        if queue.selections:
            yield from self._context.selections.forget_old_selections(
                queue, _before(queue, SELECTION_SECONDS)
            )
        if queue.limit_version:
            scopes = [queue.name, ALL]
            yield self.sql.drop_limit_counters(queues=scopes, limit=limit, now=queue.now)
        if settings.unique == "window":
            at = _before(queue, settings.unique_window)
            gone += len((yield self.sql.drop_used(queue=id, at=at, limit=limit)))
        return gone


def _before(queue: QueueRow, seconds: float) -> int:
    return queue.now - round(seconds * 1000)
