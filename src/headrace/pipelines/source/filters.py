"""What a query's conditions say about where its records lie.

Records are ordered by seq and by time alike, so conditions on ``seq``, ``ts`` and ``id`` are
bounds. They need not be exact: Spark looks at each record again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from headrace.errors import InvalidPosition
from headrace.model.position import BEYOND, OPEN, Position, parse_end

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Condition(NamedTuple):
    """``column sign value``, as in ``seq >= 7``; the sign ``in`` has several values."""

    column: str
    sign: str
    value: Any


@dataclass(frozen=True)
class Bounds:
    """Between which records everything lies that a query can want; times are whole ms."""

    first_seq: int = 0
    last_seq: int = BEYOND
    first_ms: int | None = None
    last_ms: int | None = None
    topics: frozenset[str] | None = field(default=None)

    @property
    def has_times(self) -> bool:
        return self.first_ms is not None or self.last_ms is not None

    @property
    def first_time(self) -> Position:
        return OPEN if self.first_ms is None else Position(ts=max(0, self.first_ms))

    @property
    def last_time(self) -> Position:
        return OPEN if self.last_ms is None else Position(ts=max(0, self.last_ms))

    def has_topic(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics

    def within_seqs(self, first: int, last: int) -> Bounds:
        return replace(
            self, first_seq=max(self.first_seq, first), last_seq=min(self.last_seq, last)
        )

    def within_times(self, first: int | None, last: int | None) -> Bounds:
        firsts = [ms for ms in (self.first_ms, first) if ms is not None]
        lasts = [ms for ms in (self.last_ms, last) if ms is not None]
        return replace(self, first_ms=max(firsts, default=None), last_ms=min(lasts, default=None))

    def of_topics(self, names: Iterable[str]) -> Bounds:
        wanted = frozenset(names)
        return replace(self, topics=wanted if self.topics is None else self.topics & wanted)


def bounds(conditions: Iterable[Condition]) -> Bounds:
    """The bounds that all conditions together set; one that says nothing here is passed over."""
    found = Bounds()
    for condition in conditions:
        narrow = _NARROWING.get(condition.column.removeprefix("_"))
        if narrow is not None:
            found = narrow(found, condition)
    return found


def _by_seq(found: Bounds, condition: Condition) -> Bounds:
    values = condition.value if condition.sign == "in" else [condition.value]
    if not values or not all(isinstance(value, int) for value in values):
        return found
    low, high = min(values), max(values)
    match condition.sign:
        case "=" | "in":
            return found.within_seqs(low, high)
        case ">" | ">=":
            return found.within_seqs(low + (condition.sign == ">"), BEYOND)
        case "<" | "<=":
            return found.within_seqs(0, high - (condition.sign == "<"))
    return found


def _by_time(found: Bounds, condition: Condition) -> Bounds:
    values = condition.value if condition.sign == "in" else [condition.value]
    if not values or not all(isinstance(value, datetime) for value in values):
        return found
    low, high = _microseconds(min(values)), _microseconds(max(values))
    # Records are dated by the millisecond: the bounds are the nearest ones inside.
    match condition.sign:
        case "=" | "in":
            return found.within_times(-(-low // 1000), high // 1000)
        case ">":
            return found.within_times(low // 1000 + 1, None)
        case ">=":
            return found.within_times(-(-low // 1000), None)
        case "<":
            return found.within_times(None, -(-high // 1000) - 1)
        case "<=":
            return found.within_times(None, high // 1000)
    return found


def _by_id(found: Bounds, condition: Condition) -> Bounds:
    """An id names its seq. Ids compare as text, so their order says nothing."""
    values = condition.value if condition.sign == "in" else [condition.value]
    if condition.sign not in ("=", "in") or not values:
        return found
    seqs = [_seq_of(value) for value in values]
    known = [seq for seq in seqs if seq is not None]
    return found.within_seqs(min(known), max(known)) if known else found.within_seqs(1, 0)


def _by_topic(found: Bounds, condition: Condition) -> Bounds:
    if condition.sign == "=":
        return found.of_topics([condition.value])
    return found.of_topics(condition.value) if condition.sign == "in" else found


_NARROWING: dict[str, Callable[[Bounds, Condition], Bounds]] = {
    "seq": _by_seq,
    "ts": _by_time,
    "id": _by_id,
    "topic": _by_topic,
}


def _seq_of(value: object) -> int | None:
    try:
        position = parse_end(value)
    except InvalidPosition:
        return None
    return None if position.ts is None else position.seq


def _microseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.astimezone()
    return (aware - _EPOCH) // timedelta(microseconds=1)
