"""Totals of limits in SQL, locked and changed in one order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.contract.op import Steps
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Finally, Many, Sql, Statement
from headrace.model import rates
from headrace.model.limiting import Bound, Bucket
from headrace.model.rates import Marks

# Who waits for room in a total without a queue.
NOBODY = 0


class Buckets:
    """The totals that one operation has locked.

    Whoever has to wait for a total locks all that it needs at once, in the order of their ids;
    whoever holds some already takes only those that nobody else has.
    """

    def __init__(self, sql: Sql, now: int, *, holds_some: bool = False) -> None:
        self._sql = sql
        self._now = now
        self._holds_some = holds_some
        self._ids: dict[Bucket, int] = {}
        self._names: dict[int, Bucket] = {}
        self._marks: dict[Bucket, Marks] = {}

    def lock(self, wanted: Iterable[Bucket]) -> Steps[dict[Bucket, int]]:
        """Lock totals that are not locked yet; what they are, without those that could not be."""
        missing = {bucket.name: bucket for bucket in wanted if bucket not in self._ids}
        if not missing:
            return {}
        names = sorted(missing)
        lock = self._sql.lock_free_buckets if self._holds_some else self._sql.lock_buckets
        rows = yield lock(names=names)
        if len(rows) < len(names):
            # Some are new; or somebody has them, or has just removed them.
            known = {row["name"] for row in rows}
            yield from add_buckets(self._sql, (name for name in names if name not in known))
            rows = yield lock(names=names)
        self._holds_some = True
        found = {missing[row["name"]]: row for row in rows}
        self._ids |= {bucket: row["id"] for bucket, row in found.items()}
        self._names |= {row["id"]: bucket for bucket, row in found.items()}
        return {
            bucket: self._total(bucket, row["used"], row["marks"]) for bucket, row in found.items()
        }

    def id_of(self, bucket: Bucket) -> int | None:
        """The number of a total, if it is locked."""
        return self._ids.get(bucket)

    def bucket_of(self, id: int) -> Bucket | None:
        """A total by its number, if it is locked."""
        return self._names.get(id)

    def has(self, wanted: Iterable[Bucket]) -> bool:
        """Whether all of them are locked."""
        return all(bucket in self._ids for bucket in wanted)

    def _total(self, bucket: Bucket, used: int, marks: str | None) -> int:
        if bucket.period_ms is None:
            return used
        standing = rates.standing(rates.read_marks(marks), bucket.period_ms, self._now)
        self._marks[bucket] = standing
        return rates.total(standing)

    def room_at(self, bounds: Iterable[Bound], wanted: int = 1) -> int | None:
        """When time brings room for so many more to one of some limits that have none."""
        times = [
            rates.room_at(self._marks[bound.bucket], bound.bucket.period_ms, bound.limit, wanted)
            for bound in bounds
            if bound.bucket.period_ms is not None and bound.bucket in self._marks
        ]
        return min((time for time in times if time is not None), default=None)

    def add(self, taken: Mapping[Bucket, int]) -> Steps[None]:
        """Count what was taken, in totals that are locked."""
        changes = [
            {"name": bucket.name, "change": count}
            for bucket, count in sorted(taken.items())
            if count and bucket.period_ms is None
        ]
        marks = []
        for bucket, count in sorted(taken.items()):
            if count and bucket.period_ms is not None:
                more = rates.with_more(self._marks[bucket], bucket.period_ms, self._now, count)
                self._marks[bucket] = more
                text = rates.text_of(more)
                marks.append(
                    {
                        "id": self._ids[bucket],
                        "used": rates.total(more),
                        "marks": text,
                        "idle_at": rates.idle_at(more, bucket.period_ms),
                    }
                )
        statements: list[Statement | Many] = []
        if changes:
            statements.append(Many.of(self._sql.change_buckets, changes))
        if marks:
            statements.append(Many.of(self._sql.mark_buckets, marks))
        if statements:
            yield Finally(tuple(statements))

    def wait_for_room(self, full: Iterable[Bucket]) -> Steps[None]:
        """Let those who wait for no queue be woken when there is room."""
        yield from self._wait(NOBODY, full)

    def wait_for(self, queue: QueueRow, full: Iterable[Bucket]) -> Steps[None]:
        """Let those who wait for the queue be woken when there is room."""
        yield from self._wait(queue.id, full)

    def _wait(self, queue: int, full: Iterable[Bucket]) -> Steps[None]:
        ids = sorted(
            self._ids[bucket] for bucket in full if bucket in self._ids and not bucket.period_ms
        )
        if ids:
            sql = self._sql
            yield Finally((sql.add_waits(buckets=ids, queue=queue), sql.await_buckets(buckets=ids)))


def add_buckets(sql: Sql, names: Iterable[str]) -> Steps[None]:
    """Make totals, by name, that are not there."""
    missing = [(name, Bucket.read(name)) for name in sorted(names)]
    rows = [
        {"name": name, "queue": bucket.queue, "measure": bucket.measure} for name, bucket in missing
    ]
    if rows:
        yield Many.of(sql.add_buckets, rows)


def change_totals(sql: Sql, changes: Counter[Bucket]) -> Steps[set[str]]:
    """Let totals grow and shrink; the queues in which somebody waits for one that shrank."""
    net = sorted((bucket.name, change) for bucket, change in changes.items() if change)
    if not net:
        return set()
    yield from add_buckets(sql, (name for name, change in net if change > 0))
    rows = [{"name": name, "change": change} for name, change in net]
    changed = yield Many.of(sql.change_buckets, rows)
    awaited = sorted(row["id"] for row in changed if row["is_awaited"])
    if not awaited:
        return set()
    # A statement of its own: who began to wait before we had the lock is seen now.
    told, _ = yield sql.end_waits(buckets=awaited), sql.unawait_buckets(buckets=awaited)
    return {row["name"] for row in told if row["name"] is not None}
