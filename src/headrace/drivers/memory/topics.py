"""Topics in memory, with an undo list in place of a transaction."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.contract.items import ClientRow, Pushed, WorkerRow
from headrace.contract.op import Op, Steps
from headrace.contract.shared import (
    check_seq,
    merged,
    new_calls,
    page,
    shares,
    spans,
    stored_page,
)
from headrace.contract.sinks import Published, SinkInfo
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    Committed,
    KeyConflict,
    Page,
    Part,
    Promised,
    RangeQuery,
    StoredPage,
)
from headrace.drivers.memory.counter_data import CounterState
from headrace.drivers.memory.lock_data import LockData
from headrace.drivers.memory.queue_data import QueueData
from headrace.model.checks import seconds_of
from headrace.model.limiting import Bucket, Limits
from headrace.model.pipelines import Definition
from headrace.model.position import Crossing, Position, highest, is_beyond, lowest
from headrace.model.procs import Hold, ProcState
from headrace.model.queues import DEFAULTS, QueueSettings
from headrace.model.rates import Marks
from headrace.model.record import Batch, StoredBatch, TopicInfo
from headrace.model.refusals import unknown_topic

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
        """Where a timestamp cuts the topic."""
        first = bisect_left(self.batches, ts, key=lambda batch: batch.ts)
        after = bisect_right(self.batches, ts, key=lambda batch: batch.ts)
        return Crossing(self._seq_at(first), self._seq_at(after))

    def _seq_at(self, index: int) -> int:
        return self.batches[index].base_seq if index < len(self.batches) else self.next_seq

    def cover(self, low: int, high: int) -> list[Batch]:
        """The batches that hold the records low..high."""
        first = bisect_right(self.batches, low, key=lambda batch: batch.base_seq) - 1
        last = bisect_right(self.batches, high, key=lambda batch: batch.base_seq)
        return self.batches[max(first, 0) : last]


@dataclass
class Data:
    """All that a memory store holds."""

    topics: dict[str, TopicData] = field(default_factory=dict)
    procs: dict[str, tuple[ProcState, Hold | None]] = field(default_factory=dict)
    definitions: dict[str, tuple[str, Definition]] = field(default_factory=dict)
    once: dict[str, tuple[int, str | None, Committed]] = field(default_factory=dict)
    leases: dict[str, tuple[str, int]] = field(default_factory=dict)
    queues: dict[str, QueueData] = field(default_factory=dict)
    queue_defaults: QueueSettings = DEFAULTS
    once_pushed: dict[str, tuple[int, str | None, Pushed]] = field(default_factory=dict)
    once_published: dict[str, tuple[int, Published]] = field(default_factory=dict)
    staged: dict[str, tuple[int, tuple[Part, ...]]] = field(default_factory=dict)
    sinks: dict[str, SinkInfo] = field(default_factory=dict)
    locks: LockData = field(default_factory=LockData)
    clients: dict[str, ClientRow] = field(default_factory=dict)
    workers: dict[str, WorkerRow] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    rates: dict[Bucket, Marks] = field(default_factory=dict)
    counters: dict[str, CounterState] = field(default_factory=dict)
    last_item: int = 0
    last_turn: int = 0
    last_error: int = 0
    undo: list[Callable[[], object]] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)

    def commit(self) -> set[str]:
        """Forget how to undo; the topics and queues that have something new."""
        self.undo.clear()
        announced, self.announced = self.announced, set()
        return announced


def immediate(name: str, act: Callable[[], T], *, writes: bool = True) -> Op[T]:
    """An operation that has no steps to wait for."""

    def steps() -> Steps[T]:
        yield from ()
        return act()

    return Op(name, steps, writes=writes)


class MemoryTopics:
    """The topic operations."""

    data: Data

    def now(self) -> int:
        """The clock in milliseconds."""
        raise NotImplementedError  # the store is given it

    def commit(self, calls: Sequence[CommitCall]) -> Op[list[CommitOutcome]]:
        return immediate("commit", lambda: self._commit(calls))

    def _commit(self, calls: Sequence[CommitCall]) -> list[CommitOutcome]:
        now = self.now()
        taken = {key for key, (until, _, _) in self.data.once.items() if until > now}
        fresh = new_calls(calls, taken)
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

    def append(self, parts: Sequence[Part]) -> Committed:
        """Number the parts and keep them, neighbours in one row as everywhere."""
        if not parts:
            return Committed(0, ())
        now = self.now()
        ts = max(now, *(self.topic_data(part.topic).last_ts for part in parts))
        places = spans(parts, {p.topic: self.topic_data(p.topic).next_seq for p in parts})
        for row in merged(parts):
            self._append_one(row, ts)
        return Committed(ts, places, ts - now)

    def _append_one(self, part: Part, ts: int) -> None:
        topic = self.topic_data(part.topic)
        seq, last_ts = topic.next_seq, topic.last_ts

        def undo() -> None:
            topic.batches.pop()
            topic.next_seq, topic.last_ts = seq, last_ts

        self.data.undo.append(undo)
        self.data.announced.add(part.topic)
        topic.batches.append(Batch(seq, part.count, ts, part.body, part.headers))
        topic.next_seq, topic.last_ts = seq + part.count, ts

    def resolve(self, promised: Promised) -> Op[Committed | None]:
        raise AssertionError("memory numbers at once and promises nothing")

    def read(self, query: RangeQuery) -> Op[Page]:
        return immediate("read", lambda: self._read(query), writes=False)

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

        return immediate("read_stored", act, writes=False)

    def topics(self, prefix: str, after: str, limit: int) -> Op[list[TopicInfo]]:
        def act() -> list[TopicInfo]:
            names = sorted(
                name
                for name, topic in self.data.topics.items()
                if topic.next_seq and name > after and name.startswith(prefix)
            )
            return [self.info_of(name) for name in names[:limit]]

        return immediate("topics", act, writes=False)

    def topic_info(self, topic: str) -> Op[TopicInfo]:
        return immediate("topic_info", lambda: self.info_of(topic), writes=False)

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
        """A topic by name; one without records is as good as none."""
        return self.data.topics.setdefault(name, TopicData())

    def position_after(self, name: str, position: Position) -> int | None:
        """The seq that comes after a position; None while it lies beyond the topic's end."""
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
        # Entries are kept in the order in which they were made, also by an undone removal.
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
