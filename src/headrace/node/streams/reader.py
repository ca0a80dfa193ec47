"""A reader of a topic: pages while it is behind, then what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.contract.wire import Problem
from headrace.errors import UnknownSeq, UnknownTopic
from headrace.model.topics.positions import BEYOND
from headrace.node.guarded_store import GuardedStore
from headrace.node.http import HttpError
from headrace.node.streams.head import TopicHead
from headrace.node.streams.place import Place
from headrace.node.streams.records import EncodedRecord, encoded_records

PAGE_RECORDS = 1000
PAGE_BYTES = 256 * 1024


class Overtaken(NamedTuple):
    """Retention removed the records ``first`` to ``last`` before they were read."""

    topic: str
    first: int
    last: int

    @property
    def problem(self) -> Problem:
        """The document that tells a client."""
        return HttpError(
            410,
            "stream_overtaken",
            f"retention removed the records :{self.first} to :{self.last} of topic {self.topic!r} "
            "before this stream sent them: it goes on behind them. Keep records for longer, or "
            "read faster.",
            topic=self.topic,
            first=self.first,
            last=self.last,
        ).problem


class TopicStreamReader:
    """Where a stream is in its topic. ``store`` allows what the stream's client may do."""

    def __init__(self, store: GuardedStore, head: TopicHead, place: Place) -> None:
        self.topic = place.topic
        self.head = head
        self._store = store
        self._place = place

    @property
    def seq(self) -> int | None:
        """The number of the record to be read next; None if it is not known yet."""
        return self._place.seq

    @property
    def end(self) -> int:
        """From where on new records are to be looked at, once ``read`` has found none."""
        return self._place.end if self._place.seq is None else self._place.seq

    def went_on(self, seq: int) -> None:
        """All before ``seq`` was sent."""
        self._place.seq = seq

    async def read(
        self, limit: int = PAGE_RECORDS, max_bytes: int = PAGE_BYTES
    ) -> Sequence[EncodedRecord] | Overtaken:
        """The next records that exist; none at the end of the topic."""
        seq = await self._place.resolve(self._store)
        if seq is None:
            return ()
        recent = self.head.recent(seq, limit, max_bytes)
        if recent:
            return recent
        topics = self._store.topics
        try:
            op = topics.read_stored(self.topic, seq, BEYOND, limit, max_bytes)
            return list(encoded_records(await self._store.arun(op)))
        except UnknownTopic:
            return ()
        except UnknownSeq:
            info = await self._store.arun(topics.info(self.topic))
            if seq >= info.first_seq:
                return ()
            return Overtaken(self.topic, seq, info.first_seq - 1)
