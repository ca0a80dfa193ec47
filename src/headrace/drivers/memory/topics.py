"""Topics in memory, with an undo list in place of a transaction."""

from __future__ import annotations

import builtins
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from headrace.contract.commit_rules import (
    check_seq,
    merged,
    new_calls,
    page,
    shares,
    spans,
    stored_page,
)
from headrace.contract.items import ClientInfo, Pushed, WorkerRow
from headrace.contract.op import Op, Steps
from headrace.contract.sinks import Published, SinkInfo
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    CommitPart,
    Committed,
    KeyConflict,
    Page,
    Promised,
    RangeQuery,
    StoredPage,
)
from headrace.drivers.memory.counter_data import CounterState
from headrace.drivers.memory.lock_data import LockData
from headrace.drivers.memory.queue_data import QueueData
from headrace.model.access_tokens import AccessToken
from headrace.model.checks import seconds_of
from headrace.model.error_messages import unknown_topic
from headrace.model.limits.limit_set import CounterKey, LimitSet
from headrace.model.limits.rates import Marks
from headrace.model.pipelines import Definition
from headrace.model.queues.settings import DEFAULTS, QueueSettings
from headrace.model.schedules.schedule import Schedule
from headrace.model.topics.positions import Crossing, Position, highest, is_beyond, lowest
from headrace.model.topics.procs import OutstandingClaim, ProcState
from headrace.model.topics.records import Batch, StoredBatch, TopicInfo
from headrace.model.topics.retention import Retention

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

T = TypeVar("T")


@dataclass
class TopicData:
    """A topic: its batches in order."""

    batches: list[Batch] = field(default_factory=list)
    first_seq: int = 0
    next_seq: int = 0
    last_ts: int = 0
    min_age: int | None = None
    max_age: int | None = None

    def crossing(self, ts: int) -> Crossing:
        """Where a timestamp divides the topic."""
        first = bisect_left(self.batches, ts, key=lambda batch: batch.ts)
        after = bisect_right(self.batches, ts, key=lambda batch: batch.ts)
        return Crossing(self._seq_at(first), self._seq_at(after))

    def _seq_at(self, index: int) -> int:
        return self.batches[index].base_seq if index < len(self.batches) else self.next_seq

    def cover(self, low: int, high: int) -> list[Batch]:
        """The batches with the records low..high."""
        first = bisect_right(self.batches, low, key=lambda batch: batch.base_seq) - 1
        last = bisect_right(self.batches, high, key=lambda batch: batch.base_seq)
        return self.batches[max(first, 0) : last]


@dataclass
class Data:
    """All data of a memory store."""

    topics: dict[str, TopicData] = field(default_factory=dict)
    procs: dict[str, tuple[ProcState, OutstandingClaim | None]] = field(default_factory=dict)
    definitions: dict[str, tuple[str, Definition]] = field(default_factory=dict)
    once: dict[str, tuple[int, str | None, Committed]] = field(default_factory=dict)
    leases: dict[str, tuple[str, int]] = field(default_factory=dict)
    queues: dict[str, QueueData] = field(default_factory=dict)
    queue_defaults: QueueSettings = DEFAULTS
    retention: Retention = field(default_factory=Retention)
    once_pushed: dict[str, tuple[int, str | None, Pushed]] = field(default_factory=dict)
    once_published: dict[str, tuple[int, Published]] = field(default_factory=dict)
    staged: dict[str, tuple[int, tuple[CommitPart, ...]]] = field(default_factory=dict)
    sinks: dict[str, SinkInfo] = field(default_factory=dict)
    locks: LockData = field(default_factory=LockData)
    tokens: dict[str, AccessToken] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    clients: dict[str, ClientInfo] = field(default_factory=dict)
    workers: dict[str, WorkerRow] = field(default_factory=dict)
    limits: LimitSet = field(default_factory=LimitSet)
    rates: dict[CounterKey, Marks] = field(default_factory=dict)
    counters: dict[str, CounterState] = field(default_factory=dict)
    last_item: int = 0
    last_turn: int = 0
    last_error: int = 0
    undo: list[Callable[[], object]] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)

    def commit(self) -> set[str]:
        """Clear the undo list; returns the topics and queues with news."""
        announced, self.announced = self.announced, set()
        # Before this statement it can be undone, after it the commit is done.
        self.undo.clear()
        return announced

    def undo_to(self, mark: int) -> None:
        """Undo all changes after ``mark``.

        Each change is recorded before it is made, can be undone whether it was made or not, and is
        forgotten when it has been undone. So an exception in between does no harm, if another call
        continues.
        """
        undo = self.undo
        while len(undo) > mark:
            undo[-1]()
            undo.pop()


def immediate(name: str, act: Callable[[], T], *, writes: bool = True) -> Op[T]:
    """An operation without steps."""

    def steps() -> Steps[T]:
        yield from ()
        return act()

    return Op(name, steps, writes=writes)


class MemoryTopics:
    """The topic operations."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    data: Data

    def commit(self, calls: Sequence[CommitCall]) -> Op[builtins.list[CommitOutcome]]:
        return immediate("topics.commit", lambda: self.commit_now(calls))

    def commit_now(self, calls: Sequence[CommitCall]) -> builtins.list[CommitOutcome]:
        now = self.now()
        used = {key for key, (until, _, _) in self.data.once.items() if until > now}
        fresh = new_calls(calls, used)
        written = self.append([part for call in fresh for part in call.parts])
        mine = dict(zip(map(id, fresh), shares(fresh, written), strict=True))
        return [self._answer(call, mine.get(id(call)), now) for call in calls]

    def _answer(
        self, call: CommitCall, written: Committed | Promised | None, now: int
    ) -> CommitOutcome:
        if written is not None:
            assert isinstance(written, Committed)
            if call.key is not None:
                entry = (now + call.key_ttl_ms, call.digest, written)
                self.put(self.data.once, call.key, entry)
            return written
        assert call.key is not None
        _, digest, outcome = self.data.once[call.key]
        return outcome if digest == call.digest else KeyConflict(call.key)

    def append(self, parts: Sequence[CommitPart]) -> Committed:
        """Number the parts and store them, neighbours in one row as in all drivers."""
        if not parts:
            return Committed(0, ())
        now = self.now()
        ts = max(now, *(self.topic_data(part.topic).last_ts for part in parts))
        places = spans(parts, {p.topic: self.topic_data(p.topic).next_seq for p in parts})
        for row in merged(parts):
            self._append_one(row, ts)
        return Committed(ts, places, ts - now)

    def _append_one(self, part: CommitPart, ts: int) -> None:
        topic = self.topic_data(part.topic)
        seq, last_ts, count = topic.next_seq, topic.last_ts, len(topic.batches)

        def undo() -> None:
            del topic.batches[count:]
            topic.next_seq, topic.last_ts = seq, last_ts

        self.data.undo.append(undo)
        self.data.announced.add(part.topic)
        topic.batches.append(Batch(seq, part.count, ts, part.body, part.headers))
        topic.next_seq, topic.last_ts = seq + part.count, ts

    def resolve(self, promised: Promised) -> Op[Committed | None]:
        # Records are numbered immediately: no commit here was ever promised.
        return immediate("topics.resolve", lambda: None, writes=False)

    def read(self, query: RangeQuery) -> Op[Page]:
        return immediate("topics.read", lambda: self._read(query), writes=False)

    def _read(self, query: RangeQuery) -> Page:
        topic = self.topic_data(query.topic)
        info = self.info_of(query.topic)
        low = lowest(query.start, query.exclusive, _cut(topic, query.start))
        high = highest(query.end, query.exclusive, _cut(topic, query.end))
        bottom, top = max(low, topic.first_seq), min(high, topic.next_seq - 1)
        if query.descending:
            batches = topic.cover(max(bottom, top - query.limit + 1), top)[::-1]
        else:
            batches = topic.cover(bottom, min(top, bottom + query.limit - 1))
        return page(info, low, high, within(batches, query.max_bytes), query)

    def read_stored(
        self, topic: str, low: int, high: int, limit: int, max_bytes: int
    ) -> Op[StoredPage]:
        def act() -> StoredPage:
            data, info = self.topic_data(topic), self.info_of(topic)
            found = data.cover(low, min(high, low + limit - 1))
            batches = [_stored(batch) for batch in within(found, max_bytes)]
            return stored_page(info, low, high, limit, batches)

        return immediate("topics.read_stored", act, writes=False)

    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[TopicInfo]]:
        def act() -> list[TopicInfo]:
            names = sorted(
                name
                for name, topic in self.data.topics.items()
                if topic.next_seq and name > after and name.startswith(prefix)
            )
            return [self.info_of(name) for name in names[:limit]]

        return immediate("topics.list", act, writes=False)

    def info(self, topic: str) -> Op[TopicInfo]:
        return immediate("topics.info", lambda: self.info_of(topic), writes=False)

    def info_of(self, name: str) -> TopicInfo:
        topic = self.topic_data(name)
        if topic.next_seq == 0:
            raise unknown_topic(name)
        return TopicInfo(
            name,
            topic.first_seq,
            topic.next_seq,
            topic.last_ts,
            seconds_of(topic.min_age),
            seconds_of(topic.max_age),
        )

    def topic_data(self, name: str) -> TopicData:
        """A topic by name; one without records counts as none."""
        return self.data.topics.setdefault(name, TopicData())

    def position_after(self, name: str, position: Position) -> int | None:
        """The seq after a position; None while that is beyond the topic's end."""
        topic = self.topic_data(name)
        if position.is_seq:
            seq = position.seq or 0
            check_seq(name, seq, topic.first_seq, topic.next_seq)
            return seq + 1
        cut = _cut(topic, position)
        assert cut is not None
        if is_beyond(position, cut, topic.next_seq):
            return None
        return max(lowest(position, True, cut), topic.first_seq)

    def put(self, where: dict[str, T], key: str, value: T | None) -> None:
        """Set (or remove, with None) an entry so that it can be undone."""
        before = where.get(key)
        # Entries keep the order in which they were created, also after an undone removal.
        everything = dict(where) if value is None else None

        def undo() -> None:
            if everything is not None:
                where.clear()
                where.update(everything)
            elif before is None:
                where.pop(key, None)
            else:
                where[key] = before

        self.data.undo.append(undo)
        if value is None:
            where.pop(key, None)
        else:
            where[key] = value


def _cut(topic: TopicData, end: Position) -> Crossing | None:
    return None if end.ts is None else topic.crossing(end.ts)


def within(batches: list[Batch], max_bytes: int) -> list[Batch]:
    """The first batch, and the next ones while less than ``max_bytes`` came before."""
    size = 0
    for index, batch in enumerate(batches):
        if index and size >= max_bytes:
            return batches[:index]
        size += len(batch.body)
    return batches


def _stored(batch: Batch) -> StoredBatch:
    headers = None if batch.headers is None else batch.headers.encode()
    return StoredBatch(batch.base_seq, batch.count, batch.ts, batch.body.encode(), headers)
