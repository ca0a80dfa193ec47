"""The numbers of queues in memory, what is kept of their past, and its end."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.contract.items import Backlog, LoggedError, Sample
from headrace.contract.op import Op
from headrace.drivers.memory.claims import MemoryClaims
from headrace.drivers.memory.items import K, V
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model.channels import GONE_SECONDS, SELECTION_SECONDS

SAMPLE_MS = 60_000


class MemoryNumbers(MemoryClaims):
    """Counts, series and maintenance."""

    def backlogs(self, queues: Sequence[str] | None, computed: bool) -> Op[list[Backlog]]:
        return immediate("backlogs", lambda: self._backlogs(queues, computed), writes=False)

    def consolidate(self, queues: Sequence[str] | None) -> Op[list[Backlog]]:
        # Nothing to set right: the states are counted from the items themselves.
        return immediate("consolidate", lambda: self._backlogs(queues, computed=True))

    def _backlogs(self, names: Sequence[str] | None, computed: bool) -> list[Backlog]:
        if names is None:
            names = [name for name, queue in self.data.queues.items() if queue.info is not None]
        return [self._backlog(name, computed) for name in sorted(set(names))]

    def _backlog(self, name: str, computed: bool) -> Backlog:
        queue, _ = self.queue(name)
        now = self.now()
        waiting = [*queue.first(queue.line, len(queue.line)), *queue.until(queue.planned, now)]
        oldest = min((item.next_execution for item in waiting), default=None)
        return Backlog(
            queue=name,
            counts=queue.counts(),
            oldest_due_ms=None if oldest is None else max(now - oldest, 0),
            is_computed=computed or not queue.settings.metrics,
        )

    def logged_errors(
        self, queue: str, item: int | None, before: int, limit: int
    ) -> Op[list[LoggedError]]:
        def act() -> list[LoggedError]:
            errors = self.queue(queue)[0].errors
            found = [errors[id] for id in sorted(errors, reverse=True) if id < before]
            return [error for error in found if item is None or error.item == item][:limit]

        return immediate("logged_errors", act, writes=False)

    def samples(self, queue: str, since: int, limit: int) -> Op[list[Sample]]:
        def act() -> list[Sample]:
            samples = self.queue(queue)[0].samples
            return [samples[at] for at in sorted(samples) if at >= since][:limit]

        return immediate("samples", act, writes=False)

    def tend_queue(self, queue: str, limit: int) -> Op[int]:
        def act() -> int:
            data, _ = self.queue(queue)
            now = self.now()
            self.end_leases(data, limit, now)
            self._sample(data, now)
            return self._remove_old(data, limit, now)

        return immediate("tend_queue", act)

    def _sample(self, queue: QueueData, now: int) -> None:
        if queue.settings.metrics and now >= max(queue.samples, default=0) + SAMPLE_MS:
            self.set_entry(queue.samples, now, Sample(at=now, counts=queue.counts()))

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
            self.change(queue, info=replace(queue.info, version=queue.info.version + 1))
        for channel in [name for name, until in queue.holds.items() if until <= now]:
            self.set_entry(queue.holds, channel, None)
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
        """Remove what is as old as that, the oldest first."""
        old = sorted(entry for entry in dated if entry[0] + round(seconds * 1000) <= now)[:limit]
        for _, key in old:
            self.set_entry(where, key, None)
        return len(old)
