"""A ledger beside the database, to prove what crashes left in it.

A process writes down what it is about to do and, once it was told, what became of it, in a
file of its own. However the process ends, its ledger and the store can be joined
afterwards: what was acknowledged must be there, what was begun may be there, and nothing
else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import msgspec

from headrace.model.record import Record


class Entry(msgspec.Struct, kw_only=True):
    """Something that was begun; ``outcome`` is None if whoever did it did not live to see one.

    ``is_sent`` says that the call which decides had been made, or was just about to be.
    """

    name: str
    intent: dict[str, Any]
    is_sent: bool = False
    outcome: dict[str, Any] | None = None


class Ledger:
    """An append-only file; a line is on the disk when the call that writes it returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def intend(self, name: str, **details: Any) -> None:
        """Write down what is about to be done, under a name that is never used again."""
        self._append({"name": name, "intent": details})

    def send(self, name: str) -> None:
        """Write down that the call which decides comes next, when other things came before."""
        self._append({"name": name, "is_sent": True})

    def outcome(self, name: str, **details: Any) -> None:
        """Write down what came of it."""
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


def read(paths: Iterable[Path]) -> list[Entry]:
    """All entries of some ledgers. The last line of a killed process may be half a line."""
    entries: dict[str, Entry] = {}
    for path in paths:
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                continue
            found = msgspec.json.decode(line)
            if "intent" in found:
                assert found["name"] not in entries, f"{found['name']} was begun twice"
                entries[found["name"]] = Entry(**found)
            elif "outcome" in found:
                entry = entries[found["name"]]
                assert entry.outcome is None, f"{entry} was told also {found['outcome']}"
                entry.outcome = found["outcome"]
            else:
                entries[found["name"]].is_sent = True
    return list(entries.values())


def body(name: str, place: int) -> dict[str, Any]:
    """What the record at ``place`` of a call looks like, for ``check_commits``."""
    return {"call": name, "place": place}


def check_order(records: Sequence[Record]) -> None:
    """Seqs are dense from 0 and timestamps never fall."""
    assert [record.seq for record in records] == list(range(len(records)))
    for before, after in pairwise(records):
        assert before.ts <= after.ts, f"{after.id} is older than {before.id} before it"


def check_commits(entries: Iterable[Entry], topics: Mapping[str, Sequence[Record]]) -> None:
    """Each commit is there once and whole, or not at all; acknowledged ones are there.

    An intent has ``topics``: for each record of the call, in order, its topic; the records
    are made by ``body``. An outcome has the ``ids`` that the call returned.
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


def _check_commit(entry: Entry, found: dict[int, Record]) -> None:
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
        assert ids == entry.outcome["ids"], f"{entry} was told other ids than {ids}"


def check_claims(entries: Iterable[Entry], end: int) -> None:
    """A proc handed out everything in order up to ``end``, and nothing again that was acked.

    An intent is a claim: its ``first`` and ``last`` seq and the millisecond ``until`` which it
    lasts; sent is its ack. An outcome is ``acked`` or not (``ClaimLost``).
    """
    # The store's own clock orders the claims of a proc: a later one ends later. Within a
    # millisecond nobody's claim can have run out, so there the later one is further on.
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
