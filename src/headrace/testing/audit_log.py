"""An audit log beside the database, to prove what a crash left in it.

A process records in a file of its own what it is about to do, and later the answer it got. However
the process ends, its audit log and the store can be compared afterwards: acknowledged work must be
stored, work that was begun may be stored, and nothing else may be.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import msgspec

from headrace.model.topics.records import Record


class AuditEntry(msgspec.Struct, kw_only=True):
    """An intent, and its outcome. ``outcome`` is None if the process did not live to see one.

    ``is_sent`` says that the deciding call had been made, or was about to be.
    """

    name: str
    intent: dict[str, Any]
    is_sent: bool = False
    outcome: dict[str, Any] | None = None


class AuditLog:
    """An append-only file. Each write is durable when the call returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def intend(self, name: str, **details: Any) -> None:
        """Record an intent, under a name that is never used again."""
        self._append({"name": name, "intent": details})

    def send(self, name: str) -> None:
        """Record that the deciding call comes next, after calls that decided nothing."""
        self._append({"name": name, "is_sent": True})

    def outcome(self, name: str, **details: Any) -> None:
        """Record the outcome of an intent."""
        self._append({"name": name, "outcome": details})

    def _append(self, line: dict[str, Any]) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read(paths: Iterable[Path]) -> list[AuditEntry]:
    """All entries of some audit logs. The last line of a killed process may be incomplete."""
    entries: dict[str, AuditEntry] = {}
    for path in paths:
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                continue
            found = msgspec.json.decode(line)
            if "intent" in found:
                assert found["name"] not in entries, f"{found['name']} was begun twice"
                entries[found["name"]] = AuditEntry(**found)
            elif "outcome" in found:
                entry = entries[found["name"]]
                assert entry.outcome is None, f"{entry} also got {found['outcome']}"
                entry.outcome = found["outcome"]
            else:
                entries[found["name"]].is_sent = True
    return list(entries.values())


def body(name: str, place: int) -> dict[str, Any]:
    """The body of the record at ``place`` of a call, for ``check_commits``."""
    return {"call": name, "place": place}


def check_order(records: Sequence[Record]) -> None:
    """Seqs are dense from 0 and timestamps never fall."""
    assert [record.seq for record in records] == list(range(len(records)))
    for before, after in pairwise(records):
        assert before.ts <= after.ts, f"{after.id} is older than {before.id} before it"


def check_commits(entries: Iterable[AuditEntry], topics: Mapping[str, Sequence[Record]]) -> None:
    """Each commit is stored completely and once, or not at all. Acknowledged commits are stored.

    An intent has ``topics``: for each record of the call, in order, its topic. ``body`` makes the
    records. An outcome has the ``ids`` that the call returned.
    """
    known = {entry.name: entry for entry in entries}
    found: dict[str, dict[int, Record]] = {}
    for records in topics.values():
        check_order(records)
        for record in records:
            name, place = record.body["call"], record.body["place"]
            assert name in known, f"{record.id} in {record.topic!r} was never begun: {name}"
            assert place not in found.setdefault(name, {}), f"{name}, record {place}: there twice"
            found[name][place] = record
    for name, entry in known.items():
        _check_commit(entry, found.get(name, {}))


def _check_commit(entry: AuditEntry, found: dict[int, Record]) -> None:
    places = [record.topic for _, record in sorted(found.items())]
    if entry.outcome is None and not places:
        return
    assert places == entry.intent["topics"], f"{entry} is not whole: {places}"
    assert len({record.ts for record in found.values()}) == 1, f"{entry} has several timestamps"
    for topic in set(places):
        seqs = [record.seq for _, record in sorted(found.items()) if record.topic == topic]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), f"{entry} is scattered: {seqs}"
    if entry.outcome is not None:
        ids = [record.id for _, record in sorted(found.items())]
        assert ids == entry.outcome["ids"], f"{entry} got other ids than {ids}"


def check_claims(entries: Iterable[AuditEntry], end: int) -> None:
    """A proc delivered everything in order up to ``end``, and no acked record again.

    An intent is a claim: its ``first`` and ``last`` seq, and ``until``, the millisecond at which it
    expires. Sent is its ack. An outcome is ``acked`` or not (``ClaimLost``).
    """
    # The store's own clock orders the claims of a proc: a later one expires later. Within a
    # millisecond no claim can have expired, so there the later one is further on.
    claims = sorted(entries, key=lambda e: (e.intent["until"], e.intent["first"]))
    positions = {0}
    for claim in claims:
        first, behind = claim.intent["first"], claim.intent["last"] + 1
        assert first in positions, f"{claim} does not start at one of {positions}"
        if claim.outcome is not None:
            positions = {behind if claim.outcome["acked"] else first}
        elif claim.is_sent:
            positions = {first, behind}
        else:
            positions = {first}
    assert end in positions, f"the proc stands at {end}, not at one of {positions}"
    acked = Counter(
        seq
        for claim in claims
        if claim.outcome and claim.outcome["acked"]
        for seq in range(claim.intent["first"], claim.intent["last"] + 1)
    )
    again = [seq for seq, times in acked.items() if times > 1]
    assert not again, f"acked more than once: {again}"
