"""The numbers of queues in SQL, what is kept of their past, and its end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.contract.items import COUNTED, Backlog, Counts, LoggedError, Sample
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.claims import Claims
from headrace.drivers.relational.queues.ledger import STATES
from headrace.drivers.relational.queues.lives import Lives
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.model.channels import GONE_SECONDS, SELECTION_SECONDS
from headrace.model.failures import Failure
from headrace.model.items import State
from headrace.model.limits import ALL

SAMPLE_MS = 60_000
# Channels that are empty are kept for so long from when they were made, since most come back.
IDLE_SECONDS = 3600
MOST_QUEUES = 1_000_000
_decode_counts = msgspec.json.Decoder(Counts).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
_GAUGES = tuple(STATES.values())


class Numbers(Claims, Lives):
    """Counts, series and maintenance."""

    def backlogs(self, queues: Sequence[str] | None, computed: bool) -> Op[list[Backlog]]:
        return Op("backlogs", lambda: self._backlogs(queues, computed=computed), writes=False)

    def _backlogs(self, names: Sequence[str] | None, *, computed: bool) -> Steps[list[Backlog]]:
        found = []
        for queue in (yield from self._chosen(names)):
            found.append((yield from self._backlog(queue, computed=computed)))
        return found

    def _chosen(self, names: Sequence[str] | None) -> Steps[list[QueueRow]]:
        if names is None:
            rows = yield self.sql.list_queues(
                prefix="", after="", limit=MOST_QUEUES, now=self.clock()
            )
            return [queue_of(row) for row in rows]
        chosen = []
        for name in sorted(set(names)):
            chosen.append((yield from self.queue_row(name)))
        return chosen

    def _backlog(self, queue: QueueRow, *, computed: bool) -> Steps[Backlog]:
        keeps = queue.settings.metrics
        running: dict[str, int] = {}
        if keeps:
            [row] = yield self.sql.sum_tallies(queue=queue.id)
            running = {name: row[name] for name in COUNTED}
        if computed or not keeps:
            running |= yield from self._counted(queue)
        [oldest] = yield self.sql.oldest_due(queue=queue.id, now=queue.now)
        times = [time for time in (oldest["pending"], oldest["planned"]) if time is not None]
        return Backlog(
            queue=queue.name,
            counts=Counts(**running),
            oldest_due_ms=max(queue.now - min(times), 0) if times else None,
            is_computed=computed or not keeps,
        )

    def _counted(self, queue: QueueRow) -> Steps[dict[str, int]]:
        """How many items there are in each state, counted."""
        live = yield self.sql.count_items(queue=queue.id)
        ended = yield self.sql.count_ended(queue=queue.id)
        numbers = dict.fromkeys(_GAUGES, 0)
        for row in [*live, *ended]:
            numbers[STATES[State(row["state"])]] = row["count"]
        return numbers

    def consolidate(self, queues: Sequence[str] | None) -> Op[list[Backlog]]:
        def steps() -> Steps[list[Backlog]]:
            for queue in (yield from self._chosen(queues)):
                if queue.settings.metrics:
                    yield from self.recount(queue)
            return (yield from self._backlogs(queues, computed=True))

        return Op("consolidate", steps, repeatable=True)

    def recount(self, queue: QueueRow) -> Steps[None]:
        # Nobody pushes, claims or settles between the two counts, or the difference would be
        # wrong: they are made in one snapshot.
        [row] = yield self.sql.compare_tallies(queue=queue.id)
        ledger = self.ledger()
        ledger.count(queue, **{name: row[name] for name in _GAUGES})
        yield from ledger.write()

    def logged_errors(
        self, queue: str, item: int | None, before: int, limit: int
    ) -> Op[list[LoggedError]]:
        def steps() -> Steps[list[LoggedError]]:
            row = yield from self.queue_row(queue)
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

        return Op("logged_errors", steps, writes=False)

    def samples(self, queue: str, since: int, limit: int) -> Op[list[Sample]]:
        def steps() -> Steps[list[Sample]]:
            row = yield from self.queue_row(queue)
            found = yield self.sql.list_samples(queue=row.id, since=since, limit=limit)
            return [Sample(at=r["at"], counts=_decode_counts(r["counts"])) for r in found]

        return Op("samples", steps, writes=False)

    def tend_queue(self, queue: str, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self.open_queue(queue)
            yield from self._end_leases(row, limit)
            # Also without running counts: completions leave receipts among them.
            yield self.sql.fold_tallies(queue=row.id, now=self.clock())
            if row.settings.metrics:
                yield from self._sample(row)
            return (yield from self._remove_old(row, limit))

        return Op("tend_queue", steps)

    def _sample(self, queue: QueueRow) -> Steps[None]:
        [last] = yield self.sql.last_sample(queue=queue.id)
        if queue.now < (last["at"] or 0) + SAMPLE_MS:
            return
        backlog = yield from self._backlog(queue, computed=False)
        counts = msgspec.json.encode(backlog.counts).decode()
        yield self.sql.add_sample(queue=queue.id, at=queue.now, counts=counts)

    def _remove_old(self, queue: QueueRow, limit: int) -> Steps[int]:
        settings, id, gone = queue.settings, queue.id, 0
        ledger = self.ledger()
        kept = {State.COMPLETED: settings.keep, State.DEAD: settings.keep_dead}
        for state, keep in kept.items():
            if keep in ("all", None):
                continue
            seconds = 0.0 if keep == "none" else float(keep or 0)
            found = yield self.sql.drop_ended(
                queue=id, state=int(state), at=_before(queue, seconds), limit=limit
            )
            ledger.count(queue, **{STATES[state]: -len(found)})
            gone += len(found)
        yield from ledger.write()
        at = _before(queue, settings.errors_retention)
        gone += len((yield self.sql.drop_errors(queue=id, at=at, limit=limit)))
        at = _before(queue, settings.metrics_retention)
        gone += len((yield self.sql.drop_samples(queue=id, at=at, limit=limit)))
        at = _before(queue, GONE_SECONDS)
        gone += len((yield self.sql.drop_gone(queue=id, at=at, limit=limit)))
        if queue.info.has_channels:
            yield from self.drop_idle_channels(queue, _before(queue, IDLE_SECONDS), limit)
            yield self.sql.drop_holds(queue=id, now=queue.now)
        if queue.selections:
            yield from self.forget_old_selections(queue, _before(queue, SELECTION_SECONDS))
        if queue.limits:
            scopes = [queue.name, ALL]
            yield self.sql.drop_buckets(queues=scopes, limit=limit, now=queue.now)
        if settings.unique == "window":
            at = _before(queue, settings.unique_window)
            gone += len((yield self.sql.drop_used(queue=id, at=at, limit=limit)))
        return gone


def _before(queue: QueueRow, seconds: float) -> int:
    return queue.now - round(seconds * 1000)
