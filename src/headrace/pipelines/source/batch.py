"""A batch read: the records that exist when it is planned."""

from __future__ import annotations

from headrace.contract.store import Store
from headrace.contract.values import RangeQuery
from headrace.model.topics.positions import OPEN, Position, parse_end
from headrace.pipelines.source.options import SourceOptions
from headrace.pipelines.source.ranges import SeqRange, split


class BatchRead:
    """Plans a read of topics, without records that are committed after the plan.

    Only ``start`` and ``end`` narrow a plan. Spark keeps one plan per ``load()`` and shares it
    among all uses of the DataFrame, so the filters of one use must not affect another.
    """

    def __init__(self, store: Store, options: SourceOptions) -> None:
        self._store = store
        self._options = options

    def ranges(self) -> list[SeqRange]:
        """The ranges to read, one per task.

        Raises ``UnknownTopic`` and ``UnknownSeq`` for topics and records that do not exist.
        """
        start, end = parse_end(self._options.start), parse_end(self._options.end)
        ranges = [self._resolve(topic, start, end) for topic in self._options.topics]
        return split(ranges, self._options.partitions)

    def _resolve(self, topic: str, start: Position, end: Position) -> SeqRange:
        """The range from ``start`` to ``end`` as it is now, read as cheaply as possible."""
        if start == end == OPEN:
            info = self._store.run(self._store.topics.info(topic))
            return SeqRange(topic, info.first_seq, info.next_seq - 1)
        query = RangeQuery(topic=topic, start=start, end=end, limit=1, max_bytes=1)
        page = self._store.run(self._store.topics.read(query))
        return SeqRange(topic, page.low, page.high)
