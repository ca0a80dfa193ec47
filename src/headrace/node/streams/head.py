"""The head of a topic: what was committed last, read once for all streams that are up to date."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Protocol

from headrace.contract.store import Store
from headrace.errors import HeadraceError, UnknownSeq, UnknownTopic
from headrace.model.failures import words_of
from headrace.model.topics.positions import BEYOND
from headrace.node.streams.records import EncodedRecord, Piece, encoded_records, pieces_of
from headrace.node.streams.words import Words

RECENT_BYTES = 1024 * 1024
PAGE_RECORDS = 1000
PAGE_BYTES = 256 * 1024
RETRY_SECONDS = 1.0
DELIVERIES = 100
"""How many streams are served before others get their turn on the event loop."""

_log = logging.getLogger("headrace.node")


class News:
    """Records that have just come, ``first`` to ``following - 1``."""

    def __init__(self, records: Sequence[EncodedRecord]) -> None:
        self.first = records[0].seq
        self.following = records[-1].seq + 1
        self._records = records

    @cached_property
    def pieces(self) -> list[Piece]:
        """The records as events, encoded once for all streams."""
        return pieces_of(self._records)


class StreamFollower(Protocol):
    """A stream that has everything, and waits for more."""

    def deliver(self, news: News) -> None:
        """Take what is new, without waiting. A follower that cannot take all of it leaves."""
        ...

    def wake(self) -> None:
        """Leave, and look at the topic itself: it is not as it should be."""
        ...


class TopicHead:
    """Reads a topic from its end on, while there are followers; keeps the last megabyte."""

    def __init__(self, store: Store, words: Words, topic: str) -> None:
        self._store = store
        self._words = words
        self._topic = topic
        self._followers: dict[StreamFollower, None] = {}
        self._recent: list[EncodedRecord] = []
        self._recent_bytes = 0
        self._following = 0
        self._has_joined = asyncio.Event()
        self._reader = asyncio.ensure_future(self._read())
        # How many streams of the topic are open, at the head or not.
        self.streams = 0

    def recent(self, seq: int, limit: int, max_bytes: int) -> Sequence[EncodedRecord]:
        """Recent records from ``seq`` on; empty if they are not kept, or do not exist yet."""
        kept = self._recent
        if not kept or not kept[0].seq <= seq < self._following:
            return ()
        begin = seq - kept[0].seq
        stop = min(begin + limit, len(kept))
        size = 0
        for end in range(begin, stop):
            size += len(kept[end].json)
            if size >= max_bytes:
                return kept[begin : end + 1]
        return kept[begin:stop]

    def join(self, follower: StreamFollower, seq: int) -> bool:
        """Deliver the records from ``seq`` on; False if there are some of them already."""
        if not self._followers and seq != self._following:
            self._follow_from(seq)
        elif seq < self._following:
            return False
        self._followers[follower] = None
        self._has_joined.set()
        return True

    def leave(self, follower: StreamFollower) -> None:
        """Deliver no more."""
        self._followers.pop(follower, None)

    def close(self) -> None:
        """Stop reading."""
        self._reader.cancel()

    def _follow_from(self, seq: int) -> None:
        self._recent, self._recent_bytes, self._following = [], 0, seq

    async def _read(self) -> None:
        with self._words.listening(self._topic, polls=True) as (listener, is_ready):
            await is_ready.wait()
            while True:
                await self._has_joined.wait()
                listener.news.clear()
                await self._read_all()
                if self._followers:
                    await listener.news.wait()
                else:
                    self._has_joined.clear()

    async def _read_all(self) -> None:
        """Read and deliver all that there is. Errors are told, and it is tried again later."""
        try:
            while self._followers and await self._read_page():
                pass
        except HeadraceError as error:
            # Meanwhile followers wait as for a record that does not come.
            _log.warning("topic %r cannot be read: %s", self._topic, words_of(error))
            if not error.retryable:
                self._wake_all()
            await asyncio.sleep(RETRY_SECONDS)
        except Exception:
            _log.exception("topic %r cannot be read", self._topic)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_page(self) -> bool:
        """Deliver a page of what is new; whether there may be more."""
        topics = self._store.topics
        begin = self._following
        try:
            info = await self._store.arun(topics.info(self._topic))
            if info.next_seq <= begin:
                return False
            op = topics.read_stored(self._topic, begin, BEYOND, PAGE_RECORDS, PAGE_BYTES)
            page = await self._store.arun(op)
        except UnknownTopic:
            return False
        except UnknownSeq:
            # Retention was faster.
            self._wake_all()
            return False
        if begin != self._following:
            return True  # all followers left meanwhile, and others came
        records = list(encoded_records(page))
        self._keep(records)
        await self._deliver(News(records))
        return True

    def _keep(self, records: list[EncodedRecord]) -> None:
        self._recent += records
        self._recent_bytes += sum(len(record.json) for record in records)
        self._following = records[-1].seq + 1
        gone = 0
        while self._recent_bytes > RECENT_BYTES and gone < len(self._recent) - 1:
            self._recent_bytes -= len(self._recent[gone].json)
            gone += 1
        del self._recent[:gone]

    async def _deliver(self, news: News) -> None:
        for count, follower in enumerate(list(self._followers), start=1):
            # It may have left by now, or even have come back with everything.
            if follower in self._followers:
                follower.deliver(news)
            if count % DELIVERIES == 0:
                await asyncio.sleep(0)

    def _wake_all(self) -> None:
        for follower in list(self._followers):
            follower.wake()


class TopicHeads:
    """The heads of all topics that have streams."""

    def __init__(self, store: Store, words: Words) -> None:
        self._store = store
        self._words = words
        self._heads: dict[str, TopicHead] = {}

    @contextmanager
    def head(self, topic: str) -> Iterator[TopicHead]:
        """The head of a topic, while a stream is open."""
        head = self._heads.get(topic)
        if head is None:
            head = self._heads[topic] = TopicHead(self._store, self._words, topic)
        head.streams += 1
        try:
            yield head
        finally:
            head.streams -= 1
            if not head.streams:
                del self._heads[topic]
                head.close()
