"""Positions in a topic: record ids, range ends and offsets.

A topic is ordered by seq, and its timestamps never decrease, so the order by seq and the
order by (timestamp, seq) are the same. Every form a user may write becomes a
``Position``; ``Crossing`` says where a timestamp cuts the sequence, and with both the
functions below turn positions into plain sequence numbers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from headrace.errors import InvalidPosition
from headrace.model.fields import shown

_FORM = re.compile(r"(?:(?P<ts>\d+)(?:-(?P<seq>\d+))?|:(?P<bare>\d+))", re.ASCII)

# Numbers beyond this do not fit a database's 64-bit integer and name nothing real.
BEYOND = 2**62

FROM_START = ">"
FROM_NOW = "$>"


class Position(msgspec.Struct, frozen=True):
    """A full id (both), a timestamp (``ts``), a ``:seq`` (``seq``), or an open end (neither)."""

    ts: int | None = None
    seq: int | None = None

    @property
    def is_open(self) -> bool:
        return self.ts is None and self.seq is None

    @property
    def is_seq(self) -> bool:
        return self.ts is None and self.seq is not None


OPEN = Position()


class Crossing(NamedTuple):
    """Where timestamp T cuts a topic: ``first`` seq with ts >= T, ``after`` seq with ts > T.

    Both are ``next_seq`` when the topic has no such record yet.
    """

    first: int
    after: int


def record_id(ts: int, seq: int | str) -> str:
    """The public id of a record: ``{ms}-{seq}``; without a seq, how the ids of ``ts`` begin."""
    return f"{ts}-{seq}"


def range_text(first: str, last: str) -> str:
    """The text of a range: always both ends, also for one record."""
    return f"{first}..{last}"


def range_of(ts: int, first: int, last: int) -> str:
    """The text of a range of records with one timestamp."""
    return f"{ts}-{first}..{ts}-{last}"


def parse_end(text: object) -> Position:
    """Read one end of a range: nothing, a full id, a timestamp, or ``:seq``."""
    if text is None or text == "":
        return OPEN
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidPosition(
            f"{shown(text)} is not a position: write an id '1518951480106-7', "
            "a timestamp in milliseconds '1518951480106', or a sequence number ':7'.",
            position=text,
        )
    ts, seq, bare = match.group("ts", "seq", "bare")
    if bare is not None:
        return Position(seq=_bounded(bare))
    return Position(ts=_bounded(ts), seq=None if seq is None else _bounded(seq))


def check_offset(text: object) -> str:
    """Return ``text`` if a proc may start there: ``>``, ``$>`` or a position."""
    if text in (FROM_START, FROM_NOW):
        return str(text)
    if text is None or text == "":
        raise InvalidPosition(
            "a proc needs an offset: '>' for the first record, '$>' for new records only, "
            "or a position to start after.",
            position=text,
        )
    try:
        parse_end(text)
    except InvalidPosition as error:
        raise InvalidPosition(
            f"{shown(text)} is not an offset: write '>', '$>', an id, a timestamp or ':seq'.",
            position=text,
        ) from error
    return str(text)


def _bounded(digits: str) -> int:
    # A number this long may not even be converted by Python's int; it means "not found".
    return BEYOND if len(digits) > 18 else int(digits)


def is_beyond(position: Position, cut: Crossing, next_seq: int) -> bool:
    """Whether an id or timestamp lies after the newest record, so that its seq is not known yet."""
    if cut.first >= next_seq:
        return True
    return position.seq is not None and position.seq >= next_seq and cut.after >= next_seq


def lowest(start: Position, exclusive: bool, cut: Crossing | None) -> int:
    """The first seq at or after ``start``; strictly after an exact one when ``exclusive``.

    A timestamp is a whole millisecond and ignores ``exclusive``.
    """
    if start.ts is None:
        return 0 if start.seq is None else start.seq + exclusive
    assert cut is not None
    if start.seq is None:
        return cut.first
    return min(max(start.seq + exclusive, cut.first), cut.after)


def highest(end: Position, exclusive: bool, cut: Crossing | None) -> int:
    """The last seq at or before ``end``; strictly before an exact one when ``exclusive``."""
    if end.ts is None:
        return BEYOND if end.seq is None else end.seq - exclusive
    assert cut is not None
    if end.seq is None:
        return cut.after - 1
    return min(max(end.seq - exclusive, cut.first - 1), cut.after - 1)
