"""A batch read: which records there are when it is planned."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.contract.store import Store
from headrace.contract.values import RangeQuery
from headrace.model.position import OPEN, Position, parse_end
from headrace.pipelines.source.filters import Bounds, Condition, bounds
from headrace.pipelines.source.options import SourceOptions
from headrace.pipelines.source.ranges import SeqRange, split


class BatchRead:
    """Plans a read of topics; what is committed after the plan is not in it."""

    def __init__(self, store: Store, options: SourceOptions) -> None:
        self._store = store
        self._options = options

    def ranges(self, conditions: Iterable[Condition] = ()) -> list[SeqRange]:
        """The stretches to read, one per task; without what the conditions exclude.

        ``UnknownTopic`` and ``UnknownSeq`` name what is not there.
        """
        limits = bounds(conditions)
        topics = [topic for topic in self._options.topics if limits.has_topic(topic)]
        found = [self._range(topic, limits) for topic in topics]
        return split(found, self._options.partitions)

    def _range(self, topic: str, limits: Bounds) -> SeqRange:
        asked = self._found(topic, parse_end(self._options.start), parse_end(self._options.end))
        first = max(asked.first, limits.first_seq)
        last = min(asked.last, limits.last_seq)
        if limits.has_times:
            within = self._found(topic, limits.first_time, limits.last_time)
            first, last = max(first, within.first), min(last, within.last)
        return SeqRange(topic, first, last)

    def _found(self, topic: str, start: Position, end: Position) -> SeqRange:
        """Where the ends lie now, by seq: the cheapest look there is."""
        if start == end == OPEN:
            info = self._store.run(self._store.topic_info(topic))
            return SeqRange(topic, info.first_seq, info.next_seq - 1)
        query = RangeQuery(topic=topic, start=start, end=end, limit=1, max_bytes=1)
        page = self._store.run(self._store.read(query))
        return SeqRange(topic, page.low, page.high)
