"""All limits of a store: what holds for the items of a channel, and how much room is left.

A *bucket* is one total: of a queue (or of all), by a measure, of what has certain values. The
measure is ``running``, ``enqueued`` or ``rate/<milliseconds>``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.model.keyvalues import KeyValues
from headrace.model.limits import ALL, EVERYTHING, RATE, Rule, Rules, Subject

PLENTY = 2**53
_MOST_KNOWN = 2**16


class Bucket(NamedTuple):
    """The name of a total. The queue is ``ALL`` for all of them together."""

    queue: str
    measure: str
    key_values: str

    @property
    def name(self) -> str:
        """The one text for it. Names of queues and measures have no bar."""
        return "|".join(self)

    @classmethod
    def read(cls, name: str) -> Bucket:
        """A bucket from its name."""
        return cls(*name.split("|", 2))

    @property
    def period_ms(self) -> int | None:
        """The period of a rate."""
        return int(self.measure[len(RATE) :]) if self.measure.startswith(RATE) else None


def named(scope: str) -> str | None:
    """The queue that a scope is, None for all."""
    return None if scope == ALL else scope


class Bound(NamedTuple):
    """A limit that must have room: whose it is, the bucket whose total counts, the limit."""

    rule: str
    override: str | None
    bucket: Bucket
    limit: int


class Bounds(NamedTuple):
    """The buckets that items of a channel count in, in their order, and what is checked.

    ``buckets`` are all that have to be locked for it.
    """

    counted: tuple[Bucket, ...] = ()
    checked: tuple[Bound, ...] = ()
    buckets: frozenset[Bucket] = frozenset()

    @classmethod
    def of(cls, counted: Iterable[Bucket], checked: Sequence[Bound]) -> Bounds:
        """What holds for items that count in these buckets, and are checked so."""
        ordered = tuple(sorted(counted))
        limited = (bound.bucket for bound in checked if bound.limit > 0)
        return cls(ordered, tuple(checked), frozenset((*ordered, *limited)))


UNBOUND = Bounds()


class Kept(NamedTuple):
    """The rules of a scope (a queue, or ``ALL``) whose totals are of one measure."""

    scope: str
    on: Subject
    measure: str
    rules: Rules


class Limits:
    """All rules of a store, at a version of theirs."""

    def __init__(self, rules: Iterable[Rule] = (), version: int = 0) -> None:
        self.version = version
        self.rules = {rule.id: rule for rule in rules}
        kept: dict[tuple[str, Subject, str], list[Rule]] = {}
        for rule in self.rules.values():
            kept.setdefault((rule.scope, rule.on, rule.measure), []).append(rule)
        self._kept: dict[str, list[Kept]] = {}
        for (scope, on, measure), some in sorted(kept.items(), key=lambda one: one[0]):
            self._kept.setdefault(scope, []).append(Kept(scope, on, measure, Rules(some)))
        # The scopes of rules that apply to items in no channel.
        self._open_scopes = {rule.scope for rule in self.rules.values() if not rule.pattern}
        # No other keys of a channel matter to any rule.
        patterns = [rule.pattern for rule in self.rules.values()]
        patterns += [each.pattern for rule in self.rules.values() for each in rule.overrides]
        self._keys = {key for pattern in patterns for key in pattern.all}
        self._known: dict[tuple[str, str | None, Subject], Bounds] = {}

    def _about(self, queue: str) -> Iterator[Kept]:
        """The rules about a queue, and those about all."""
        yield from self._kept.get(ALL, ())
        yield from self._kept.get(queue, ())

    def has(self, queue: str, on: Subject) -> bool:
        """Whether there is any rule about such items of a queue."""
        return any(kept.on == on for kept in self._about(queue))

    def has_rates(self, queue: str) -> bool:
        """Whether any rule about a queue is about how many in some time."""
        return any(kept.measure.startswith(RATE) for kept in self._about(queue))

    def has_totals(self, scope: str, on: Subject) -> bool:
        """Whether any rule of a scope (a queue, or ``ALL``) looks at how many there are."""
        return any(kept.measure == on for kept in self._kept.get(scope, ()))

    def concerns(self, queue: str, *, has_channels: bool) -> bool:
        """Whether there is any rule that may apply to items of a queue."""
        scopes = self._kept if has_channels else self._open_scopes
        return ALL in scopes or queue in scopes

    def bounds(self, queue: str, channel: str | None, on: Subject) -> Bounds:
        """What holds for the items of a channel (its form), or for those in none."""
        key = (queue, channel, on)
        found = self._known.get(key)
        if found is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._work_out(queue, channel, on)
        return found

    def _work_out(self, queue: str, channel: str | None, on: Subject) -> Bounds:
        subject = EVERYTHING if channel is None else KeyValues.read(channel)
        keys = [key for key in subject.all if key in self._keys]
        if len(keys) < len(subject):
            # What holds for it holds for many others, and is worked out once.
            return self.bounds(queue, subject.only(keys).form if keys else None, on)
        counted: list[Bucket] = []
        checked: list[Bound] = []
        for kept in self._about(queue):
            if kept.on != on:
                continue
            of, measure = kept.scope, kept.measure
            found = kept.rules.bounds(subject)
            counted += [Bucket(of, measure, form) for form in found.counted]
            checked += [
                Bound(check.rule, check.override, Bucket(of, measure, check.bucket), check.limit)
                for check in found.checked
            ]
        return Bounds.of(counted, checked) if counted or checked else UNBOUND


NO_LIMITS = Limits()


class Room:
    """What totals leave for one operation, and what it has taken of that."""

    def __init__(self, used: Mapping[Bucket, int] | None = None) -> None:
        self.used: Counter[Bucket] = Counter(used)
        self.taken: Counter[Bucket] = Counter()
        self.full: dict[Bucket, Bound] = {}

    def know(self, used: Mapping[Bucket, int]) -> None:
        """More totals."""
        self.used.update(used)

    def fits(self, bounds: Bounds) -> int:
        """How many more items have room; what leaves none is noted."""
        room = PLENTY
        for bound in bounds.checked:
            left = bound.limit - self.used[bound.bucket]
            if left <= 0:
                self.full.setdefault(bound.bucket, bound)
            room = min(room, left)
        return max(room, 0)

    def refusal(self, bounds: Bounds, count: int) -> Bound | None:
        """The first limit that has no room for so many more."""
        for bound in bounds.checked:
            if self.used[bound.bucket] + count > bound.limit:
                return bound
        return None

    def give_back(self) -> None:
        """Nothing was taken after all."""
        self.used.subtract(self.taken)
        self.taken.clear()

    def take_all(self, wanted: Sequence[tuple[Bounds, int]]) -> bool:
        """Whether all these items have room together; then they are counted."""
        needed: Counter[Bucket] = Counter()
        for bounds, count in wanted:
            for bucket in bounds.counted:
                needed[bucket] += count
        for bounds, count in wanted:
            for bound in bounds.checked:
                # What is checked is counted, unless nothing is let through at all.
                if self.used[bound.bucket] + (needed[bound.bucket] or count) > bound.limit:
                    return False
        self.used.update(needed)
        self.taken.update(needed)
        return True

    def take(self, bounds: Bounds, count: int) -> None:
        """So many more are counted."""
        for bucket in bounds.counted:
            self.used[bucket] += count
            self.taken[bucket] += count
