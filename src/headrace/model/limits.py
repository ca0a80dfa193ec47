"""Rules and overrides: which limits hold for key-values, and which totals they are part of.

A rule applies to whatever has its pattern. If overrides of it apply too, they stand in its
place, all of them. A limit of -1 is none, 0 lets nothing through. Every limit that is left must
have room.

A total is of everything that has the same values under the keys of a pattern, whatever limits
hold for it: an item that an override lets pass is still one of those that the rule counts for
others. So what is *counted* and what is *checked* are two lists. A total is named by those keys
and values alone (a *bucket*): two rules over the same keys look at the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from headrace.errors import InvalidKeyValues, InvalidOption
from headrace.model.fields import refuse, shown
from headrace.model.keyvalues import KeyValues
from headrace.model.patterns import PatternIndex

UNLIMITED = -1
EVERYTHING = KeyValues({})
"""The pattern of a rule that applies to all items, those in no channel included."""

RATE = "rate/"
ALL = "*"
"""The scope of a rule about all queues together; no queue has this name."""

Subject = Literal["running", "enqueued"]
"""What a rule is about: items that are out, or all that are live."""


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """Another limit for some of what a rule applies to."""

    id: str
    pattern: KeyValues
    limit: int


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A limit for each set of values that fits its pattern, and its overrides.

    ``queue`` of None is all queues together. With a ``period_ms`` it limits how many are handed
    out within such a time (a rate), otherwise how many there are at once.
    """

    id: str
    pattern: KeyValues
    limit: int
    overrides: tuple[Override, ...] = ()
    queue: str | None = None
    on: Subject = "running"
    period_ms: int | None = None

    @property
    def scope(self) -> str:
        """The queue it is about, or ``ALL``."""
        return self.queue or ALL

    @property
    def kind(self) -> Literal["concurrency", "rate"]:
        return "concurrency" if self.period_ms is None else "rate"

    @property
    def measure(self) -> str:
        """What its totals are of; rules with the same measure may look at the same total."""
        return self.on if self.period_ms is None else f"{RATE}{self.period_ms}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """No two rules have the same."""
        return self.scope, self.measure, self.pattern.form

    def override(self, id: str) -> Override | None:
        """One of its overrides."""
        return next((override for override in self.overrides if override.id == id), None)


class Check(NamedTuple):
    """A limit that must have room: whose it is, the bucket whose total counts, the limit."""

    rule: str
    override: str | None
    bucket: str
    limit: int


class Bounds(NamedTuple):
    """The buckets that key-values count in, in their order, and what is checked for them."""

    counted: tuple[str, ...]
    checked: tuple[Check, ...]

    def refusal(self, used: Mapping[str, int], count: int = 1) -> Check | None:
        """The first limit that has no room for so many more, given the totals."""
        for check in self.checked:
            if used.get(check.bucket, 0) + count > check.limit:
                return check
        return None


class Rules:
    """All rules of a place, and what they say about key-values.

    >>> rules = Rules([Rule(id="one", pattern=KeyValues.of({"os": "mac"}), limit=1)])
    >>> rules.bounds(KeyValues.of({"os": "mac", "branch": "main"})).counted
    ('{"os":[13,"mac"]}',)
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
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

    def bounds(self, subject: KeyValues) -> Bounds:
        """What holds for typed key-values; worked out once for each channel, not for each item.

        Without key-values, as for an item in no channel, that is what applies to everything.
        """
        counted: set[str] = set()
        checked = []
        applying = [*self._always, *(self._index.applying(subject) if subject else ())]
        for rule in map(self._rules.__getitem__, applying):
            overrides = list(self._applying(rule, subject))
            own = _check(rule, None, subject)
            checks = [_check(rule, override, subject) for override in overrides]
            counted |= {check.bucket for check in (own, *checks) if check.limit > 0}
            checked += [check for check in checks or [own] if check.limit != UNLIMITED]
        return Bounds(tuple(sorted(counted)), tuple(checked))

    def _applying(self, rule: Rule, subject: KeyValues) -> Iterator[Override]:
        index = self._overrides.get(rule.id)
        if index is not None and subject:
            by_id = {override.id: override for override in rule.overrides}
            yield from (by_id[id] for id in index.applying(subject))


def check_limit(option: str, value: object) -> int:
    """A limit: -1 for none, 0 for nothing at all, or a number."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < UNLIMITED:  # type: ignore[operator]
        raise InvalidOption(
            f"{option}: {shown(value)} is no limit: use a whole number, 0 to let nothing through "
            "or -1 for no limit.",
            option=option,
        )
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_override(rule: KeyValues, override: KeyValues, path: str = "") -> None:
    """Refuse an override that lacks a key of its rule: it could not stand in its place."""
    for key in rule:
        if key not in override:
            refuse(
                InvalidKeyValues,
                f"{path}[{key}]",
                "is missing: an override has all the keys of its rule.",
            )


def _check(rule: Rule, override: Override | None, subject: KeyValues) -> Check:
    limited = override or rule
    pattern = limited.pattern
    # Without any, what it applies to has its very values.
    bucket = subject.only(pattern).form if pattern.has_any else pattern.form
    return Check(rule.id, override.id if override else None, bucket, limited.limit)
