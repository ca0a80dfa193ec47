"""Rules and overrides: which limits apply to key-values, and which counters they count in.

A rule applies to all key-values that match its pattern. If overrides of it apply too, all of them
replace the rule. A limit of -1 is no limit, 0 allows nothing. All limits that remain must have
free slots.

A counter counts everything that has the same values under the keys of a pattern, whatever limits
apply to it: an item that an override allows still counts in the rule's counter, for others. So
the counters to *count* in and the limits to *check* are two lists. Those keys and values alone
name a counter: two rules over the same keys share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from headrace.errors import InvalidKeyValues, InvalidOption
from headrace.model.checks import MAX_COUNT
from headrace.model.fields import refuse, shown
from headrace.model.names import ALL_QUEUES
from headrace.model.query.key_values import KeyValues
from headrace.model.query.patterns import PatternIndex

UNLIMITED = -1
EVERYTHING = KeyValues({})
"""The pattern of a rule that applies to all items, those in no channel included."""

RATE = "rate/"
ALL = ALL_QUEUES
"""The scope of a rule about all queues together."""

Subject = Literal["running", "enqueued"]
"""The items that a rule counts: those in flight, or all that are live."""


class LimitOverride(msgspec.Struct, frozen=True, kw_only=True):
    """Another limit for a part of the key-values that a rule applies to."""

    id: str
    pattern: KeyValues
    limit: int


class LimitRule(msgspec.Struct, frozen=True, kw_only=True):
    """A limit for each set of values that matches its pattern, and its overrides.

    ``queue`` of None is all queues together. With a ``period_ms`` it limits how many items are
    claimed within a period (a rate), otherwise how many there are at the same time.
    """

    id: str
    pattern: KeyValues
    limit: int
    overrides: tuple[LimitOverride, ...] = ()
    queue: str | None = None
    on: Subject = "running"
    period_ms: int | None = None

    @property
    def scope(self) -> str:
        """The queue it applies to, or ``ALL``."""
        return self.queue or ALL

    @property
    def kind(self) -> Literal["concurrency", "rate"]:
        return "concurrency" if self.period_ms is None else "rate"

    @property
    def measure(self) -> str:
        """What its counters count; rules with the same measure may share a counter."""
        return self.on if self.period_ms is None else f"{RATE}{self.period_ms}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """Unique among the rules of a store."""
        return self.scope, self.measure, self.pattern.form

    def override(self, id: str) -> LimitOverride | None:
        """One of its overrides."""
        return next((override for override in self.overrides if override.id == id), None)


class RuleCheck(NamedTuple):
    """A limit to check: its rule or override, its counter, and the maximum."""

    rule: str
    override: str | None
    counter: str
    limit: int


class RuleLimits(NamedTuple):
    """The counters that key-values count in, sorted, and the limits to check."""

    counted: tuple[str, ...]
    checked: tuple[RuleCheck, ...]

    def refusal(self, used: Mapping[str, int], count: int = 1) -> RuleCheck | None:
        """The first limit without ``count`` free slots, given the counters."""
        for check in self.checked:
            if used.get(check.counter, 0) + count > check.limit:
                return check
        return None


class Rules:
    """The rules of a scope and measure, and the limits they set for key-values.

    >>> rules = Rules([LimitRule(id="one", pattern=KeyValues.of({"os": "mac"}), limit=1)])
    >>> rules.bounds(KeyValues.of({"os": "mac", "branch": "main"})).counted
    ('{"os":[13,"mac"]}',)
    """

    def __init__(self, rules: Iterable[LimitRule]) -> None:
        self._rules = {rule.id: rule for rule in rules}
        self._index = PatternIndex(
            {rule.id: rule.pattern for rule in self._rules.values() if rule.pattern}
        )
        self._always = sorted(rule.id for rule in self._rules.values() if not rule.pattern)
        self._overrides = {
            rule.id: PatternIndex({each.id: each.pattern for each in rule.overrides})
            for rule in self._rules.values()
            if rule.overrides
        }

    def bounds(self, subject: KeyValues) -> RuleLimits:
        """The limits for typed key-values; computed once for each channel, not for each item.

        Without key-values, as for an item in no channel, only rules for everything apply.
        """
        counted: set[str] = set()
        checked = []
        applying = [*self._always, *(self._index.applying(subject) if subject else ())]
        for rule in map(self._rules.__getitem__, applying):
            overrides = list(self._applying(rule, subject))
            own = _check(rule, None, subject)
            checks = [_check(rule, override, subject) for override in overrides]
            counted |= {check.counter for check in (own, *checks) if check.limit > 0}
            checked += [check for check in checks or [own] if check.limit != UNLIMITED]
        return RuleLimits(tuple(sorted(counted)), tuple(checked))

    def _applying(self, rule: LimitRule, subject: KeyValues) -> Iterator[LimitOverride]:
        index = self._overrides.get(rule.id)
        if index is not None and subject:
            by_id = {override.id: override for override in rule.overrides}
            yield from (by_id[id] for id in index.applying(subject))


def check_limit(option: str, value: object) -> int:
    """Check a limit: a number, 0 to allow nothing, or -1 for no limit."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < UNLIMITED
        or value > MAX_COUNT
    ):
        raise InvalidOption(
            f"{option}: {shown(value)} is not a valid limit: use a whole number of 32 bits, 0 to "
            "allow nothing or -1 for no limit.",
            option=option,
        )
    return int(value)


def check_override(rule: KeyValues, override: KeyValues, path: str = "") -> None:
    """Refuse an override that lacks a key of its rule: it could not replace the rule."""
    for key in rule:
        if key not in override:
            refuse(
                InvalidKeyValues,
                f"{path}[{key}]",
                "is missing: an override has all the keys of its rule.",
            )


def _check(rule: LimitRule, override: LimitOverride | None, subject: KeyValues) -> RuleCheck:
    limited = override or rule
    pattern = limited.pattern
    # Without ANY, the subject has exactly the values of the pattern.
    counter = subject.only(pattern).form if pattern.has_any else pattern.form
    return RuleCheck(rule.id, override.id if override else None, counter, limited.limit)
