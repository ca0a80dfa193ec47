"""The records of a claim as they are stored: columns of JSON text, decoded by whoever needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.contract.values import ClaimResult, StoredPage
from headrace.errors import MalformedRecord
from headrace.model.position import record_id
from headrace.model.record import Batch, Record

_decode_lines = msgspec.json.Decoder().decode_lines
_decode_headers = msgspec.json.Decoder(dict[str, str] | None).decode


@dataclass(frozen=True)
class Rows:
    """Neighbouring records of a topic, in order; those in between are dead letters."""

    topic: str
    seqs: Sequence[int]
    times: Sequence[int]
    bodies: Sequence[str]
    headers: Sequence[str | None]

    @classmethod
    def of(cls, claim: ClaimResult) -> Rows:
        """The rows that a claim handed out."""
        found = cls.within(claim.topic, claim.batches, claim.first_seq, claim.last_seq)
        return found.without(claim.skipped) if claim.skipped else found

    @classmethod
    def within(cls, topic: str, batches: Sequence[Batch], low: int, high: int) -> Rows:
        """The rows from one seq to another of stored batches."""
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
            beside = batch.headers
            headers += [None] * size if beside is None else beside.split("\n", stop)[first:stop]
        return cls(topic, seqs, times, bodies, headers)

    @classmethod
    def stored(cls, page: StoredPage) -> Rows:
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
        return cls.within(page.topic, batches, page.first, page.last)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.seqs)

    @property
    def ids(self) -> list[str]:
        """Their ids."""
        return [record_id(ts, seq) for ts, seq in zip(self.times, self.seqs, strict=True)]

    def without(self, seqs: Sequence[int]) -> Rows:
        """The others."""
        gone = set(seqs)
        return self.at([i for i, seq in enumerate(self.seqs) if seq not in gone])

    def at(self, indexes: Sequence[int]) -> Rows:
        """Those at these places."""
        return Rows(
            self.topic,
            [self.seqs[i] for i in indexes],
            [self.times[i] for i in indexes],
            [self.bodies[i] for i in indexes],
            [self.headers[i] for i in indexes],
        )

    def cut(self, start: int, stop: int) -> Rows:
        """Those from one place to before another."""
        some = slice(start, stop)
        columns = self.seqs[some], self.times[some], self.bodies[some], self.headers[some]
        return Rows(self.topic, *columns)

    def decoded(self) -> list[Any]:
        """Their bodies."""
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
        """All of them, decoded."""
        return [
            Record(self.topic, seq, ts, body, (beside and _decode_headers(beside)) or {})
            for seq, ts, body, beside in zip(
                self.seqs, self.times, self.decoded(), self.headers, strict=True
            )
        ]
