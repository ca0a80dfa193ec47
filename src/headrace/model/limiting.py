"""All limits of a store: what holds for the items of a channel, and how much room is left.

A *bucket* is one total: of a queue (or of all), by a measure, of what has certain values. The
measure is ``running``, ``enqueued`` or ``rate/<milliseconds>``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
    """The buckets that items of a channel count in, in their order, and what is checked."""

    counted: tuple[Bucket, ...] = ()
    checked: tuple[Bound, ...] = ()

    @property
    def buckets(self) -> frozenset[Bucket]:
        """All that have to be locked for it."""
        checked = (bound.bucket for bound in self.checked if bound.limit > 0)
        return frozenset((*self.counted, *checked))


UNBOUND = Bounds()


class Limits:
    """All rules of a store, at a version of theirs."""

    def __init__(self, rules: Iterable[Rule] = (), version: int = 0) -> None:
        self.version = version
        self.rules = {rule.id: rule for rule in rules}
        kept: dict[tuple[str, Subject, str], list[Rule]] = {}
        for rule in self.rules.values():
            kept.setdefault((rule.scope, rule.on, rule.measure), []).append(rule)
        self._kept = {
            (queue, on, measure): Rules(some) for (queue, on, measure), some in kept.items()
        }
        self._known: dict[tuple[str, str | None, Subject], Bounds] = {}

    def has(self, queue: str, on: Subject) -> bool:
        """Whether there is any rule about such items of a queue."""
        return any(about == on and of in (ALL, queue) for of, about, _ in self._kept)

    def has_rates(self, queue: str) -> bool:
        """Whether any rule about a queue is about how many in some time."""
        return any(of in (ALL, queue) and measure.startswith(RATE) for of, _, measure in self._kept)

    def has_totals(self, scope: str, on: Subject) -> bool:
        """Whether any rule of a scope (a queue, or ``ALL``) looks at how many there are."""
        return (scope, on, on) in self._kept

    def concerns(self, queue: str, *, has_channels: bool) -> bool:
        """Whether there is any rule that may apply to items of a queue."""
        return any(
            rule.queue in (None, queue) and (has_channels or not rule.pattern)
            for rule in self.rules.values()
        )

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
        counted: list[Bucket] = []
        checked: list[Bound] = []
        for (of, about, measure), rules in sorted(self._kept.items(), key=lambda kept: kept[0]):
            if about != on or of not in (ALL, queue):
                continue
            found = rules.bounds(subject)
            counted += [Bucket(of, measure, form) for form in found.counted]
            checked += [
                Bound(check.rule, check.override, Bucket(of, measure, check.bucket), check.limit)
                for check in found.checked
            ]
        return Bounds(tuple(sorted(counted)), tuple(checked)) if counted or checked else UNBOUND


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

    def take(self, bounds: Bounds, count: int) -> None:
        """So many more are counted."""
        for bucket in bounds.counted:
            self.used[bucket] += count
            self.taken[bucket] += count
