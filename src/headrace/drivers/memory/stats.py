"""Statistics of queues in memory: counts, series, history, and their retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.items import LoggedError, MetricSample, QueueCounts
from headrace.contract.op import Op
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.storage import K, V
from headrace.drivers.memory.topics import immediate
from headrace.model.maintenance import Tended
from headrace.model.queues.channels import GONE_SECONDS, SELECTION_SECONDS

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

SAMPLE_MS = 60_000


class MemoryStats:
    """Counts, series and maintenance."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def counts(self, queues: Sequence[str] | None, computed: bool) -> Op[list[QueueCounts]]:
        return immediate("queues.counts", lambda: self._backlogs(queues, computed), writes=False)

    def consolidate(self, queues: Sequence[str] | None) -> Op[list[QueueCounts]]:
        # Nothing to reconcile: the states are counted from the items themselves.
        return immediate("queues.consolidate", lambda: self._backlogs(queues, computed=True))

    def _backlogs(self, names: Sequence[str] | None, computed: bool) -> list[QueueCounts]:
        if names is None:
            names = [name for name, queue in self.data.queues.items() if queue.info is not None]
        return [self._backlog(name, computed) for name in sorted(set(names))]

    def _backlog(self, name: str, computed: bool) -> QueueCounts:
        queue, _ = self._context.storage.queue(name)
        now = self.now()
        waiting = [*queue.first(queue.line, len(queue.line)), *queue.until(queue.planned, now)]
        oldest = min((item.next_execution for item in waiting), default=None)
        return QueueCounts(
            queue=name,
            counts=queue.counts(),
            due=len(waiting) + len(queue.until(queue.leases, now)),
            oldest_due_ms=None if oldest is None else max(now - oldest, 0),
            is_computed=computed or not queue.settings.metrics,
        )

    def logged_errors(
        self, queue: str, item: int | None, before: int, limit: int
    ) -> Op[list[LoggedError]]:
        def act() -> list[LoggedError]:
            errors = self._context.storage.queue(queue)[0].errors
            found = [errors[id] for id in sorted(errors, reverse=True) if id < before]
            return [error for error in found if item is None or error.item == item][:limit]

        return immediate("queues.logged_errors", act, writes=False)

    def samples(self, queue: str, since: int, limit: int) -> Op[list[MetricSample]]:
        def act() -> list[MetricSample]:
            samples = self._context.storage.queue(queue)[0].samples
            return [samples[at] for at in sorted(samples) if at >= since][:limit]

        return immediate("queues.samples", act, writes=False)

    def maintain(self, queue: str, limit: int) -> Op[Tended]:
        def act() -> Tended:
            data, _ = self._context.storage.queue(queue)
            now = self.now()
            expired = self._context.claims.end_leases(data, limit, now)
            self._sample(data, now)
            removed = self._remove_old(data, limit, now)
            return Tended(queue, removed, len(expired.items), expired.died)

        return immediate("queues.maintain", act)

    def _sample(self, queue: QueueData, now: int) -> None:
        if queue.settings.metrics and now >= max(queue.samples, default=0) + SAMPLE_MS:
            self._context.storage.set_entry(
                queue.samples, now, MetricSample(at=now, counts=queue.counts())
            )

    def _remove_old(self, queue: QueueData, limit: int, now: int) -> int:
        settings = queue.settings
        gone = 0
        if settings.keep != "all":
            seconds = 0 if settings.keep == "none" else settings.keep
            old = [(kept.ended_at, id) for id, kept in queue.completed.items()]
            gone += self._remove(queue.completed, old, now, seconds, limit)
        if settings.keep_dead is not None:
            old = [(kept.ended_at, id) for id, kept in queue.dead.items()]
            gone += self._remove(queue.dead, old, now, settings.keep_dead, limit)
        old = [(error.at, id) for id, error in queue.errors.items()]
        gone += self._remove(queue.errors, old, now, settings.errors_retention, limit)
        old = [(at, at) for at in queue.samples]
        gone += self._remove(queue.samples, old, now, settings.metrics_retention, limit)
        old = [(at, item) for item, (at, _) in queue.gone.items()]
        gone += self._remove(queue.gone, old, now, GONE_SECONDS, limit)
        seen = [(at, select) for select, at in queue.selections.items()]
        if self._remove(queue.selections, seen, now, SELECTION_SECONDS, limit):
            assert queue.info is not None
            self._context.storage.change(
                queue, info=replace(queue.info, version=queue.info.version + 1)
            )
        for channel in [name for name, until in queue.delays.items() if until <= now]:
            self._context.storage.set_entry(queue.delays, channel, None)
        if settings.unique == "window":
            used = [(at, subject) for subject, at in queue.used.items()]
            gone += self._remove(queue.used, used, now, settings.unique_window, limit)
        return gone

    def _remove(
        self,
        where: dict[K, V],
        dated: Sequence[tuple[int, K]],
        now: int,
        seconds: float,
        limit: int,
    ) -> int:
        """Remove what is that old, the oldest first."""
        old = sorted(entry for entry in dated if entry[0] + round(seconds * 1000) <= now)[:limit]
        for _, key in old:
            self._context.storage.set_entry(where, key, None)
        return len(old)
