"""The records of a claim as they are stored: columns of JSON text, decoded when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.contract.values import ClaimResult, StoredPage
from headrace.errors import MalformedRecord
from headrace.model.topics.positions import record_id
from headrace.model.topics.records import Batch, Record

_decode_lines = msgspec.json.Decoder().decode_lines
_decode_headers = msgspec.json.Decoder(dict[str, str] | None).decode


@dataclass(frozen=True)
class Rows:
    """Neighbouring records of a topic, in order; records that are missing are dead letters."""

    topic: str
    seqs: Sequence[int]
    times: Sequence[int]
    bodies: Sequence[str]
    headers: Sequence[str | None]

    @classmethod
    def from_claim(cls, claim: ClaimResult) -> Rows:
        """The rows of a claim."""
        rows = cls.from_batches(claim.topic, claim.batches, claim.first_seq, claim.last_seq)
        return rows.without(claim.skipped) if claim.skipped else rows

    @classmethod
    def from_batches(cls, topic: str, batches: Sequence[Batch], low: int, high: int) -> Rows:
        """The rows ``low`` to ``high`` of stored batches."""
        seqs: list[int] = []
        times: list[int] = []
        bodies: list[str] = []
        headers: list[str | None] = []
        for batch in batches:
            first = max(low, batch.base_seq) - batch.base_seq
            stop = min(high, batch.last_seq) - batch.base_seq + 1
            size = max(stop - first, 0)
            seqs += range(batch.base_seq + first, batch.base_seq + first + size)
            times += [batch.ts] * size
            bodies += batch.body.split("\n", stop)[first:stop]
            lines = batch.headers
            headers += [None] * size if lines is None else lines.split("\n", stop)[first:stop]
        return cls(topic, seqs, times, bodies, headers)

    @classmethod
    def from_page(cls, page: StoredPage) -> Rows:
        """The rows of a page."""
        batches = [
            Batch(
                batch.base_seq,
                batch.count,
                batch.ts,
                batch.body.decode(),
                None if batch.headers is None else batch.headers.decode(),
            )
            for batch in page.batches
        ]
        return cls.from_batches(page.topic, batches, page.first, page.last)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.seqs)

    @property
    def ids(self) -> list[str]:
        """The ids of the records."""
        return [record_id(ts, seq) for ts, seq in zip(self.times, self.seqs, strict=True)]

    def without(self, seqs: Sequence[int]) -> Rows:
        """All rows except those with these sequence numbers."""
        excluded = set(seqs)
        kept = [i for i, seq in enumerate(self.seqs) if seq not in excluded]
        return Rows(
            self.topic,
            [self.seqs[i] for i in kept],
            [self.times[i] for i in kept],
            [self.bodies[i] for i in kept],
            [self.headers[i] for i in kept],
        )

    def slice(self, start: int, stop: int) -> Rows:
        """The rows ``start`` to before ``stop``, counted from 0."""
        return Rows(
            self.topic,
            self.seqs[start:stop],
            self.times[start:stop],
            self.bodies[start:stop],
            self.headers[start:stop],
        )

    def decoded_bodies(self) -> list[Any]:
        """The decoded bodies of the records."""
        try:
            return _decode_lines("\n".join(self.bodies))
        except msgspec.DecodeError as error:
            raise MalformedRecord(
                f"the stored records {self.seqs[0]} to {self.seqs[-1]} of topic {self.topic!r} are "
                "not what was committed: something else has changed the table, or the file is "
                "damaged.",
                topic=self.topic,
                seq=self.seqs[0],
            ) from error

    def records(self) -> list[Record]:
        """The records, decoded."""
        return [
            Record(self.topic, seq, ts, body, (headers and _decode_headers(headers)) or {})
            for seq, ts, body, headers in zip(
                self.seqs, self.times, self.decoded_bodies(), self.headers, strict=True
            )
        ]
