"""Records, and the batches in which they are stored and sent."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.model.topics.positions import record_id


class Record(msgspec.Struct, frozen=True, gc=False):
    """One immutable entry of a topic.

    ``body`` is the JSON object or list that was committed, ``ts`` the commit's time in
    milliseconds, ``seq`` its number in the topic, ``headers`` its metadata.
    """

    topic: str
    seq: int
    ts: int
    body: Any
    headers: dict[str, str]

    @property
    def id(self) -> str:
        """``{ts}-{seq}``."""
        return record_id(self.ts, self.seq)


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A stored run of records: ``count`` JSON lines that share one timestamp.

    ``headers`` is as many JSON lines, or None when no record of the batch has any.
    """

    base_seq: int
    count: int
    ts: int
    body: str
    headers: str | None = None

    @property
    def last_seq(self) -> int:
        return self.base_seq + self.count - 1


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch as UTF-8 bytes, for readers that decode many records together."""

    base_seq: int
    count: int
    ts: int
    body: bytes
    headers: bytes | None = None

    @property
    def last_seq(self) -> int:
        return self.base_seq + self.count - 1


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic: the records it has now, and the number of the next one.

    ``min_age`` and ``max_age`` are in seconds; None where that rule removes nothing.
    """

    name: str
    first_seq: int
    next_seq: int
    last_ts: int
    min_age: float | None = None
    max_age: float | None = None

    @property
    def length(self) -> int:
        """How many records can be read now."""
        return self.next_seq - self.first_seq

    @property
    def last_id(self) -> str:
        """The id of the newest record ever committed."""
        return record_id(self.last_ts, self.next_seq - 1)
