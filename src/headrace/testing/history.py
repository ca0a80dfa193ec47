"""What the two sides of the state machine share, and what a user can know of a store.

``HistoryChecker`` knows the guarantees and what a user has seen of a store. It knows nothing of how
a driver works: the model and a driver share code, and could share a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from headrace.model.names import dead_topic
from headrace.model.topics.records import Record
from headrace.testing.clocks import FakeClock
from headrace.testing.sync_facade import claim_of


class Ticket(NamedTuple):
    """A claim that was granted. It is kept for ever, to be used again when it is stale."""

    number: int
    proc: str
    records: Sequence[Record]


class ClaimedBatch(NamedTuple):
    """The records that a claim returned, by whichever method."""

    proc: str
    records: list[Record]
    deadline: datetime | None


class Side:
    """A client, and the tokens of its claims."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.tokens: list[str] = []

    def claim(self, ticket: Ticket) -> Any:
        """This side's own claim of a ticket."""
        return claim_of(self.client, ticket.proc, self.tokens[ticket.number], ticket.records)

    def records(self, topic: str) -> list[Record]:
        """All records of a topic. None if there is no such topic."""
        is_known = any(info.name == topic for info in self.client.topics.list())
        found: list[Record] = self.client.range(topic) if is_known else []
        return found


class ProcHistory(NamedTuple):
    """What a user knows of a proc since it was created or sought."""

    topic: str
    offset: str
    length: int
    letters: int
    floor: int | None = None
    out: Ticket | None = None
    deadline: float | None = None
    acked: Ticket | None = None


class HistoryChecker:
    """Guarantees that hold whatever the model says."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.seen: dict[str, list[Record]] = {}
        self.readers: dict[str, ProcHistory] = {}

    def saw(self, topic: str, records: list[Record]) -> None:
        """A topic is dense, its timestamps never fall, and it only grows at its end (T2)."""
        before = self.seen.get(topic, [])
        assert records[: len(before)] == before, f"{topic} changed below its end"
        assert [record.seq for record in records] == list(range(len(records)))
        assert all(one.ts <= two.ts for one, two in pairwise(records)), f"{topic} falls"
        self.seen[topic] = records

    def made(self, proc: str, topic: str, offset: str, side: Side) -> None:
        """A proc was created or sought."""
        letters = len(side.records(dead_topic(proc)))
        self.readers[proc] = ProcHistory(topic, offset, len(side.records(topic)), letters)

    def gone(self, proc: str) -> None:
        self.readers.pop(proc, None)

    def claimed(self, ticket: Ticket, batch: ClaimedBatch, count: int, side: Side) -> None:
        """Records come in order and none is skipped, unless it is a dead letter by now."""
        reader = self.readers[ticket.proc]
        assert not self._stands(reader), f"{ticket.proc} granted two claims at the same time"
        dead = self._dead(ticket.proc, reader, side)
        waiting = [
            record
            for record in self._behind(reader, side.records(reader.topic))
            if record.seq not in dead
        ]
        assert 1 <= len(batch.records) <= count
        assert batch.records == waiting[: len(batch.records)]
        deadline = None if batch.deadline is None else batch.deadline.timestamp()
        self.readers[ticket.proc] = reader._replace(out=ticket, deadline=deadline)

    def _stands(self, reader: ProcHistory) -> bool:
        is_over = reader.deadline is not None and self.clock.now / 1000 >= reader.deadline
        return reader.out is not None and not is_over

    def standing(self) -> list[tuple[str, float]]:
        """Procs with a claim that a user believes to be valid, and when each expires."""
        return [
            (proc, reader.deadline)
            for proc, reader in self.readers.items()
            if reader.deadline is not None and self._stands(reader)
        ]

    def _dead(self, proc: str, reader: ProcHistory, side: Side) -> set[int]:
        letters = [
            record.body["id"]
            for record in side.records(dead_topic(proc))[reader.letters :]
            if isinstance(record.body, dict) and record.body.get("proc") == proc
        ]
        assert len(letters) == len(set(letters)), f"a record of {proc} died twice"
        return {int(letter.partition("-")[2]) for letter in letters}

    def _behind(self, reader: ProcHistory, records: list[Record]) -> list[Record]:
        if reader.floor is not None:
            return records[reader.floor :]
        if reader.offset == ">":
            return records
        if reader.offset == "$>":
            return records[reader.length :]
        if reader.offset.startswith(":"):
            return records[int(reader.offset[1:]) + 1 :]
        ts, _, seq = reader.offset.partition("-")
        if not seq:
            return [record for record in records if record.ts >= int(ts)]
        return [record for record in records if (record.ts, record.seq) > (int(ts), int(seq))]

    def extended(self, ticket: Ticket, deadline: float | None) -> None:
        reader = self.readers[ticket.proc]
        assert ticket is reader.out, "a claim was extended that does not stand"
        self.readers[ticket.proc] = reader._replace(deadline=deadline)

    def acked(self, ticket: Ticket) -> None:
        """Only the valid claim can be acked, and the last one acked again."""
        reader = self.readers[ticket.proc]
        if ticket is reader.acked:
            return
        assert ticket is reader.out, "a claim was acked that does not stand"
        floor = ticket.records[-1].seq + 1
        self.readers[ticket.proc] = reader._replace(floor=floor, out=None, acked=ticket)

    def released(self, proc: str) -> None:
        """The claim was released."""
        self.readers[proc] = self.readers[proc]._replace(out=None)

    def doubted(self, proc: str) -> None:
        """It is no longer known whether and for how long the claim is valid."""
        self.readers[proc] = self.readers[proc]._replace(deadline=0.0)

    def maybe_nacked(self, proc: str) -> None:
        """Another claim was requested: an expired claim may be gone, a valid one is not."""
        if proc in self.readers and not self._stands(self.readers[proc]):
            self.doubted(proc)
