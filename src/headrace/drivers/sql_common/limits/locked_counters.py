"""Counters of limits in SQL, locked and changed in one order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Many, NoReply, Statement, Statements
from headrace.model.limits import rates
from headrace.model.limits.limit_set import CounterKey, LimitCheck
from headrace.model.limits.rates import Marks

# In place of the id of a queue: a waiter for free slots that is no queue.
NO_QUEUE_ID = 0


class LockedCounters:
    """The counters that one operation has locked.

    An operation without locked counters locks all that it needs in one statement, in the order of
    their ids, and waits for them. An operation that has locked some already locks only those that
    no other transaction has locked.
    """

    def __init__(self, sql: Statements, now: int, *, has_locked: bool = False) -> None:
        self._sql = sql
        self._now = now
        self._has_locked = has_locked
        self._ids: dict[CounterKey, int] = {}
        self._names: dict[int, CounterKey] = {}
        self._marks: dict[CounterKey, Marks] = {}

    def lock(self, wanted: Iterable[CounterKey]) -> Steps[dict[CounterKey, int]]:
        """Lock counters that are not locked yet; returns the values of those that it has locked."""
        missing = {counter.name: counter for counter in wanted if counter not in self._ids}
        if not missing:
            return {}
        names = sorted(missing)
        lock = (
            self._sql.try_lock_limit_counters if self._has_locked else self._sql.lock_limit_counters
        )
        rows = yield lock(names=names)
        if len(rows) < len(names):
            # Some are new, or another transaction has locked or just removed them.
            known = {row["name"] for row in rows}
            yield from add_limit_counters(self._sql, (name for name in names if name not in known))
            rows = yield lock(names=names)
        self._has_locked = True
        found = {missing[row["name"]]: row for row in rows}
        self._ids |= {counter: row["id"] for counter, row in found.items()}
        self._names |= {row["id"]: counter for counter, row in found.items()}
        return {
            counter: self._value(counter, row["used"], row["marks"])
            for counter, row in found.items()
        }

    def id_of(self, counter: CounterKey) -> int | None:
        """The id of a counter, if it is locked."""
        return self._ids.get(counter)

    def counter_of(self, id: int) -> CounterKey | None:
        """A counter by its id, if it is locked."""
        return self._names.get(id)

    def has(self, wanted: Iterable[CounterKey]) -> bool:
        """Whether all of them are locked."""
        return all(counter in self._ids for counter in wanted)

    def _value(self, counter: CounterKey, used: int, marks: str | None) -> int:
        if counter.period_ms is None:
            return used
        standing = rates.current(rates.read_marks(marks), counter.period_ms, self._now)
        self._marks[counter] = standing
        return rates.total(standing)

    def free_at(self, bounds: Iterable[LimitCheck], wanted: int = 1) -> int | None:
        """When one of the rates that are at their limit has capacity for ``wanted`` more."""
        times = [
            rates.free_at(self._marks[check.counter], check.counter.period_ms, check.limit, wanted)
            for check in bounds
            if check.counter.period_ms is not None and check.counter in self._marks
        ]
        return min((time for time in times if time is not None), default=None)

    def add(self, acquired: Mapping[CounterKey, int]) -> Steps[None]:
        """Add the claimed items to locked counters."""
        changes = [
            {"name": counter.name, "change": count}
            for counter, count in sorted(acquired.items())
            if count and counter.period_ms is None
        ]
        marks = []
        for counter, count in sorted(acquired.items()):
            if count and counter.period_ms is not None:
                more = rates.added(self._marks[counter], counter.period_ms, self._now, count)
                self._marks[counter] = more
                text = rates.text_of(more)
                marks.append(
                    {
                        "id": self._ids[counter],
                        "used": rates.total(more),
                        "marks": text,
                        "idle_at": rates.idle_at(more, counter.period_ms),
                    }
                )
        statements: list[Statement | Many] = []
        if changes:
            statements.append(Many.of(self._sql.change_limit_counters, changes))
        if marks:
            statements.append(Many.of(self._sql.mark_limit_counters, marks))
        if statements:
            yield NoReply(tuple(statements))

    def wait_for_slots(self, full: Iterable[CounterKey]) -> Steps[None]:
        """Register for a notification of callers that wait for free slots without a queue."""
        yield from self._wait(NO_QUEUE_ID, full)

    def wait_for(self, queue: QueueRow, full: Iterable[CounterKey]) -> Steps[None]:
        """Register the queue as a waiter on counters that are full."""
        yield from self._wait(queue.id, full)

    def _wait(self, queue: int, full: Iterable[CounterKey]) -> Steps[None]:
        ids = sorted(
            self._ids[counter] for counter in full if counter in self._ids and not counter.period_ms
        )
        if ids:
            sql = self._sql
            yield NoReply(
                (
                    sql.register_limit_waiter(counters=ids, queue=queue),
                    sql.await_limit_counters(counters=ids),
                )
            )


def add_limit_counters(sql: Statements, names: Iterable[str]) -> Steps[None]:
    """Make the counters, by name, that do not exist."""
    missing = [(name, CounterKey.read(name)) for name in sorted(names)]
    rows = [
        {"name": name, "queue": counter.queue, "measure": counter.measure}
        for name, counter in missing
    ]
    if rows:
        yield Many.of(sql.add_limit_counters, rows)


class ChangedCounters(NamedTuple):
    """Counters that an operation has changed: their values, and the queues that wait for a free
    slot of one that was decremented."""

    used: dict[CounterKey, int]
    waiting_queues: set[str]


def change_limit_counters(sql: Statements, changes: Counter[CounterKey]) -> Steps[ChangedCounters]:
    """Change counters."""
    net = {counter.name: change for counter, change in changes.items() if change}
    if not net:
        return ChangedCounters({}, set())
    yield from add_limit_counters(sql, (name for name, change in net.items() if change > 0))
    rows = [{"name": name, "change": net[name]} for name in sorted(net)]
    changed = yield Many.of(sql.change_limit_counters, rows)
    used = {CounterKey.read(row["name"]): row["used"] for row in changed}
    awaited = sorted(row["id"] for row in changed if row["is_awaited"])
    if not awaited:
        return ChangedCounters(used, set())
    # A statement of its own, so that it sees waiters that registered before we had the lock.
    waiters, _ = yield (
        sql.remove_limit_waiters(counters=awaited),
        sql.unawait_limit_counters(counters=awaited),
    )
    queues = {row["name"] for row in waiters if row["name"] is not None}
    return ChangedCounters(used, queues)
