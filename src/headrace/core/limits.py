"""LimitSet: rules as users describe them, and usage as they see it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from headrace.contract.limits import Holder, Usage
from headrace.errors import InvalidKeyValues, InvalidOption
from headrace.model.checks import text
from headrace.model.fields import refuse, shown
from headrace.model.limits.limit_set import CounterKey, LimitSet
from headrace.model.limits.rules import (
    EVERYTHING,
    LimitOverride,
    LimitRule,
    check_limit,
    check_override,
)
from headrace.model.names import check_limit_name, check_queue
from headrace.model.query.key_values import ANYTHING, KeyValues
from headrace.model.times import Duration, duration_ms, moment_of

GroupBy = Mapping[str, Any] | None
"""Key-values; ``ANY`` for all values of a key, each with its own counter; None for everything."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """An item in a counter, with its worker if it is in flight; without a queue, acquired slots."""

    queue: str
    id: int
    channel: KeyValues | None
    worker: str | None
    since: datetime | None

    def __str__(self) -> str:
        if not self.queue:
            return f"slots of {self.worker or 'a number that was set'}"
        worker = f" ({self.worker})" if self.worker else ""
        return f"item {self.id} of queue {shown(self.queue)}{worker}"


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how much of it is used.

    ``values`` are the key-values of the counter. ``holders`` are some of the items that count;
    a rate has none. ``free_at`` is when a used-up rate has a free slot again.
    """

    rule: str
    override: str | None
    queue: str | None
    kind: str
    on: str
    values: KeyValues
    limit: int
    used: int
    holders: tuple[Holding, ...] = ()
    free_at: datetime | None = None

    @property
    def is_full(self) -> bool:
        """Whether it has no free slot."""
        return self.used >= self.limit

    def __str__(self) -> str:
        name = self.rule if self.override is None else f"{self.rule}/{self.override}"
        values = self.values.words
        what = f" of {values}" if values else ""
        if not self.limit:
            return f"the limit {shown(name)} allows nothing{what}"
        verb = "were claimed in its period" if self.kind == "rate" else f"are {self.on}"
        text = f"the limit {shown(name)} allows {self.limit}{what}, and {self.used} {verb}"
        if self.free_at is not None:
            text += f"; the next slot is free at {self.free_at.isoformat()}"
        return f"{text}: {', '.join(map(str, self.holders))}" if self.holders else text


class LimitTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The effect a rule would have now: how many of the waiting items it would let run."""

    values: KeyValues
    limit: int
    active: int
    waiting: int

    @property
    def let_through(self) -> int:
        """How many of the waiting items could be claimed now."""
        return min(self.waiting, max(self.limit - self.active, 0))

    @property
    def held_back(self) -> int:
        """How many of the waiting items would have to wait longer."""
        return self.waiting - self.let_through


def rule_of(
    group_by: GroupBy,
    limit: object,
    *,
    queue: str | None,
    on: object,
    per: Duration | None,
    name: str | None,
) -> LimitRule:
    """Check a user's description of a rule."""
    if on not in ("running", "enqueued"):
        raise InvalidOption(f"on is {shown(on)}: use running or enqueued.", option="on")
    if per is not None and on != "running":
        raise InvalidOption("per is for what runs: leave it out with on='enqueued'.", option="per")
    return LimitRule(
        id=new_name() if name is None else check_limit_name(name),
        pattern=pattern_of(group_by),
        limit=check_limit("limit", limit),
        queue=None if queue is None else check_queue(queue),
        on="running" if on == "running" else "enqueued",
        period_ms=None if per is None else duration_ms("per", per, least=1),
    )


def override_of(
    rule: LimitRule, group_by: GroupBy, limit: object, name: str | None
) -> LimitOverride:
    """Check a user's description of an override."""
    pattern = pattern_of(group_by)
    check_override(rule.pattern, pattern, "group_by")
    return LimitOverride(
        id=new_name() if name is None else check_limit_name(name),
        pattern=pattern,
        limit=check_limit("limit", limit),
    )


def pattern_of(group_by: GroupBy) -> KeyValues:
    """The pattern of a rule."""
    if group_by is None:
        return EVERYTHING
    found = KeyValues.of(group_by, "group_by", allow_any=True)
    for key, value in group_by.items():
        # Typed, it is meant as text.
        if value == ANYTHING:
            reason = (
                "'*' is only text here: use headrace.ANY for any value, each counted separately, or "
                "typed('string', '*') for this text."
            )
            refuse(InvalidKeyValues, f"group_by[{key}]", reason)
    return found


def rule_name(option: str, value: object) -> str:
    """The name of a rule or override that is looked up."""
    if not isinstance(value, str):
        raise InvalidOption(
            f"{option} is {shown(value)}: give its name, which is the id of a LimitRule.",
            option=option,
        )
    return text(option, value)


def new_name() -> str:
    """A generated name, for a rule without one."""
    return secrets.token_hex(8)


def usage_of(usage: Usage) -> LimitUsage:
    """A limit's usage for the user."""
    is_rate = CounterKey("", usage.measure, "").period_ms is not None
    return LimitUsage(
        rule=usage.rule,
        override=usage.override,
        queue=usage.queue,
        kind="rate" if is_rate else "concurrency",
        on="running" if is_rate else usage.measure,
        values=KeyValues.read(usage.key_values),
        limit=usage.limit,
        used=usage.used,
        holders=tuple(map(_holding, usage.holders)),
        free_at=None if usage.free_at is None else moment_of(usage.free_at),
    )


def _holding(holder: Holder) -> Holding:
    return Holding(
        queue=holder.queue,
        id=holder.item,
        channel=None if holder.key_values is None else KeyValues.read(holder.key_values),
        worker=holder.worker,
        since=None if holder.claimed_at is None else moment_of(holder.claimed_at),
    )


def trials_of(
    rule: LimitRule, found: Iterable[tuple[str, str | None, int, int]]
) -> list[LimitTrial]:
    """The effect of a rule, given (queue, channel, waiting items, items in flight)."""
    limits = LimitSet([rule])
    waiting: Counter[tuple[str, int]] = Counter()
    active: Counter[str] = Counter()
    for queue, channel, waits, runs in found:
        bounds = limits.bounds(queue, channel, rule.on)
        forms = {check.counter.key_values for check in bounds.checked}
        for form in forms | {counter.key_values for counter in bounds.counted}:
            active[form] += runs
        for check in bounds.checked:
            waiting[check.counter.key_values, check.limit] += waits
    return [
        LimitTrial(values=KeyValues.read(form), limit=limit, active=active[form], waiting=waits)
        for (form, limit), waits in sorted(waiting.items())
    ]
