"""All limits of a store: which of them apply to the items of a channel, and their free slots.

A counter belongs to a queue (or to all queues), a measure, and certain values. The measure is
``running``, ``enqueued`` or ``rate/<milliseconds>``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.model.limits.rules import ALL, EVERYTHING, RATE, LimitRule, Rules, Subject
from headrace.model.query.key_values import KeyValues

UNLIMITED_SLOTS = 2**53
_MAX_CACHED = 2**16


class CounterKey(NamedTuple):
    """The key of a counter. The queue is ``ALL`` for all queues together."""

    queue: str
    measure: str
    key_values: str

    @property
    def name(self) -> str:
        """The one text for it. Names of queues and measures have no line breaks."""
        return "\n".join(self)

    @classmethod
    def read(cls, name: str) -> CounterKey:
        """A key from its text."""
        return cls(*name.split("\n", 2))

    @property
    def period_ms(self) -> int | None:
        """The period of a rate."""
        return int(self.measure[len(RATE) :]) if self.measure.startswith(RATE) else None


def named(scope: str) -> str | None:
    """The queue of a scope, None for all queues."""
    return None if scope == ALL else scope


class LimitCheck(NamedTuple):
    """A limit to check: its rule or override, its counter, and the maximum."""

    rule: str
    override: str | None
    counter: CounterKey
    limit: int


class ChannelLimits(NamedTuple):
    """The counters that items of a channel count in, sorted, and the limits to check.

    ``counters`` are all counters that have to be locked for it.
    """

    counted: tuple[CounterKey, ...] = ()
    checked: tuple[LimitCheck, ...] = ()
    counters: frozenset[CounterKey] = frozenset()

    @classmethod
    def of(cls, counted: Iterable[CounterKey], checked: Sequence[LimitCheck]) -> ChannelLimits:
        """The limits of items with these counters and checks."""
        ordered = tuple(sorted(counted))
        limited = (check.counter for check in checked if check.limit > 0)
        return cls(ordered, tuple(checked), frozenset((*ordered, *limited)))


NO_CHANNEL_LIMITS = ChannelLimits()


class RuleGroup(NamedTuple):
    """The rules of a scope (a queue, or ``ALL``) with the same measure."""

    scope: str
    on: Subject
    measure: str
    rules: Rules


class LimitSet:
    """All limit rules of a store, at one version."""

    def __init__(self, rules: Iterable[LimitRule] = (), version: int = 0) -> None:
        self.version = version
        self.rules = {rule.id: rule for rule in rules}
        grouped: dict[tuple[str, Subject, str], list[LimitRule]] = {}
        for rule in self.rules.values():
            grouped.setdefault((rule.scope, rule.on, rule.measure), []).append(rule)
        self._groups: dict[str, list[RuleGroup]] = {}
        for (scope, on, measure), some in sorted(grouped.items(), key=lambda one: one[0]):
            self._groups.setdefault(scope, []).append(RuleGroup(scope, on, measure, Rules(some)))
        # The scopes of rules that apply to items in no channel.
        self._open_scopes = {rule.scope for rule in self.rules.values() if not rule.pattern}
        # No rule depends on other keys of a channel.
        patterns = [rule.pattern for rule in self.rules.values()]
        patterns += [each.pattern for rule in self.rules.values() for each in rule.overrides]
        self._keys = {key for pattern in patterns for key in pattern.all}
        self._cache: dict[tuple[str, str | None, Subject], ChannelLimits] = {}

    def _groups_for(self, queue: str) -> Iterator[RuleGroup]:
        """The rules for all queues, then those for one queue."""
        yield from self._groups.get(ALL, ())
        yield from self._groups.get(queue, ())

    def has(self, queue: str, on: Subject) -> bool:
        """Whether there is any rule for such items of a queue."""
        return any(group.on == on for group in self._groups_for(queue))

    def has_rates(self, queue: str) -> bool:
        """Whether any rule for a queue is a rate."""
        return any(group.measure.startswith(RATE) for group in self._groups_for(queue))

    def has_counters(self, scope: str, on: Subject) -> bool:
        """Whether any rule of a scope (a queue, or ``ALL``) needs a counter of such items."""
        return any(group.measure == on for group in self._groups.get(scope, ()))

    def concerns(self, queue: str, *, has_channels: bool) -> bool:
        """Whether any rule may apply to items of a queue."""
        scopes = self._groups if has_channels else self._open_scopes
        return ALL in scopes or queue in scopes

    def bounds(self, queue: str, channel: str | None, on: Subject) -> ChannelLimits:
        """The limits for items of a channel (given by its form), or for those in none."""
        key = (queue, channel, on)
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) > _MAX_CACHED:
                self._cache.clear()
            found = self._cache[key] = self._compute(queue, channel, on)
        return found

    def _compute(self, queue: str, channel: str | None, on: Subject) -> ChannelLimits:
        subject = EVERYTHING if channel is None else KeyValues.read(channel)
        keys = [key for key in subject.all if key in self._keys]
        if len(keys) < len(subject):
            # The same limits apply to many channels, and are computed once.
            return self.bounds(queue, subject.only(keys).form if keys else None, on)
        counted: list[CounterKey] = []
        checked: list[LimitCheck] = []
        for group in self._groups_for(queue):
            if group.on != on:
                continue
            of, measure = group.scope, group.measure
            found = group.rules.bounds(subject)
            counted += [CounterKey(of, measure, form) for form in found.counted]
            checked += [
                LimitCheck(
                    check.rule, check.override, CounterKey(of, measure, check.counter), check.limit
                )
                for check in found.checked
            ]
        return ChannelLimits.of(counted, checked) if counted or checked else NO_CHANNEL_LIMITS


NO_LIMITS = LimitSet()


class FreeSlots:
    """The free slots of counters during one operation, and the slots it has acquired."""

    def __init__(self, used: Mapping[CounterKey, int] | None = None) -> None:
        self.used: Counter[CounterKey] = Counter(used)
        self.acquired: Counter[CounterKey] = Counter()
        self.full: dict[CounterKey, LimitCheck] = {}

    def add_counters(self, used: Mapping[CounterKey, int]) -> None:
        """Add the values of more counters."""
        self.used.update(used)

    def available(self, bounds: ChannelLimits) -> int:
        """How many more items the limits allow; records those without a free slot in ``full``."""
        free = UNLIMITED_SLOTS
        for check in bounds.checked:
            left = check.limit - self.used[check.counter]
            if left <= 0:
                self.full.setdefault(check.counter, check)
            free = min(free, left)
        return max(free, 0)

    def first_exceeded(self, bounds: ChannelLimits, count: int) -> LimitCheck | None:
        """The first limit without ``count`` free slots."""
        for check in bounds.checked:
            if self.used[check.counter] + count > check.limit:
                return check
        return None

    def release(self) -> None:
        """Release all slots that the operation has acquired."""
        self.used.subtract(self.acquired)
        self.acquired.clear()

    def acquire_all(self, wanted: Sequence[tuple[ChannelLimits, int]]) -> bool:
        """Acquire slots for all these items, or for none; whether there were enough."""
        needed: Counter[CounterKey] = Counter()
        for bounds, count in wanted:
            for counter in bounds.counted:
                needed[counter] += count
        for bounds, count in wanted:
            for check in bounds.checked:
                # A checked counter is counted too, unless its limit allows nothing.
                if self.used[check.counter] + (needed[check.counter] or count) > check.limit:
                    return False
        self.used.update(needed)
        self.acquired.update(needed)
        return True

    def acquire(self, bounds: ChannelLimits, count: int) -> None:
        """Acquire slots for so many items."""
        for counter in bounds.counted:
            self.used[counter] += count
            self.acquired[counter] += count
