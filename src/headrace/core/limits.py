"""Limits as users say and see them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from headrace.contract.limits import Holder, Usage
from headrace.core.times import Duration, duration_ms, moment_of
from headrace.errors import InvalidOption
from headrace.model.keyvalues import KeyValues
from headrace.model.limiting import Bucket, Limits
from headrace.model.limits import EVERYTHING, Override, Rule, check_limit, check_override
from headrace.model.names import check_limit_name, check_queue

GroupBy = Mapping[str, Any] | None
"""Key-values, ``ANY`` for all values of a key, each counted apart; None for everything."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """An item that counts in a total, and who has it if it is out; without a queue, slots of user
    code."""

    queue: str
    id: int
    channel: KeyValues | None
    worker: str | None
    since: datetime | None

    def __str__(self) -> str:
        if not self.queue:
            return f"slots of {self.worker or 'a number that was set'}"
        who = f" ({self.worker})" if self.worker else ""
        return f"item {self.id} of queue {self.queue!r}{who}"


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how much of it is used.

    ``values`` are those that are counted together. ``holders`` are some of the items that count;
    a rate has none. ``room_at`` is when a rate that is used up has room again.
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
    room_at: datetime | None = None

    @property
    def is_full(self) -> bool:
        """Whether it lets nothing more through."""
        return self.used >= self.limit

    def __str__(self) -> str:
        name = self.rule if self.override is None else f"{self.rule}/{self.override}"
        values = " ".join(f"{key}={value}" for key, value in self.values.plain.items())
        what = f" of {values}" if values else ""
        if not self.limit:
            return f"the limit {name!r} lets nothing{what} through"
        verb = "are handed out in its period" if self.kind == "rate" else f"are {self.on}"
        said = f"the limit {name!r} lets {self.limit}{what} through, and {self.used} {verb}"
        if self.room_at is not None:
            said += f", with room at {self.room_at.isoformat()}"
        return f"{said}: {', '.join(map(str, self.holders))}" if self.holders else said


class LimitTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would mean for what is there: of what waits, how many it would let run now."""

    values: KeyValues
    limit: int
    active: int
    waiting: int

    @property
    def let_through(self) -> int:
        """How many of those that wait could be handed out now."""
        return min(self.waiting, max(self.limit - self.active, 0))

    @property
    def held_back(self) -> int:
        """How many of those that wait would have to wait longer."""
        return self.waiting - self.let_through


def rule_of(
    group_by: GroupBy,
    limit: object,
    *,
    queue: str | None,
    on: object,
    per: Duration | None,
    name: str | None,
) -> Rule:
    """A rule that a user described, checked."""
    if on not in ("running", "enqueued"):
        raise InvalidOption(f"on is {on!r}: use running or enqueued.", option="on")
    if per is not None and on != "running":
        raise InvalidOption("per is for what runs: leave it out with on='enqueued'.", option="per")
    return Rule(
        id=new_name() if name is None else check_limit_name(name),
        pattern=pattern_of(group_by),
        limit=check_limit("limit", limit),
        queue=None if queue is None else check_queue(queue),
        on="running" if on == "running" else "enqueued",
        period_ms=None if per is None else duration_ms("per", per, least=1),
    )


def override_of(rule: Rule, group_by: GroupBy, limit: object, name: str | None) -> Override:
    """An override of a rule that a user described, checked."""
    pattern = KeyValues.of({} if group_by is None else group_by, "group_by", allow_any=True)
    check_override(rule.pattern, pattern, "group_by")
    return Override(
        id=new_name() if name is None else check_limit_name(name),
        pattern=pattern,
        limit=check_limit("limit", limit),
    )


def pattern_of(group_by: GroupBy) -> KeyValues:
    """The pattern of a rule."""
    if group_by is None:
        return EVERYTHING
    return KeyValues.of(group_by, "group_by", allow_any=True)


def new_name() -> str:
    """A name for a rule that got none."""
    return secrets.token_hex(8)


def usage_of(usage: Usage) -> LimitUsage:
    """What a store says of a limit, as users get it."""
    is_rate = Bucket("", usage.measure, "").period_ms is not None
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
        room_at=None if usage.room_at is None else moment_of(usage.room_at),
    )


def _holding(holder: Holder) -> Holding:
    return Holding(
        queue=holder.queue,
        id=holder.item,
        channel=None if holder.key_values is None else KeyValues.read(holder.key_values),
        worker=holder.worker,
        since=None if holder.claimed_at is None else moment_of(holder.claimed_at),
    )


def trials_of(rule: Rule, found: Iterable[tuple[str, str | None, int, int]]) -> list[LimitTrial]:
    """What a rule would mean, given queues, channels, and what waits and is out in each."""
    limits = Limits([rule])
    waiting: Counter[tuple[str, int]] = Counter()
    active: Counter[str] = Counter()
    for queue, channel, waits, runs in found:
        bounds = limits.bounds(queue, channel, rule.on)
        buckets = {bound.bucket.key_values for bound in bounds.checked}
        for form in buckets | {bucket.key_values for bucket in bounds.counted}:
            active[form] += runs
        for bound in bounds.checked:
            waiting[bound.bucket.key_values, bound.limit] += waits
    return [
        LimitTrial(values=KeyValues.read(form), limit=limit, active=active[form], waiting=waits)
        for (form, limit), waits in sorted(waiting.items())
    ]
