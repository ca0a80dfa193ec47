"""Limits: what every driver implements. See ``contract.queues`` and ``model.limits``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

import msgspec

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.model.limits.limit_set import LimitCheck, named
from headrace.model.limits.rules import LimitOverride, LimitRule, Subject
from headrace.model.query.key_values import KeyValues


class OverrideRow(msgspec.Struct, frozen=True, kw_only=True):
    """An override as it is stored: ``key_values`` is the form of its pattern."""

    id: str
    key_values: str
    limit: int

    @classmethod
    def of(cls, override: LimitOverride) -> OverrideRow:
        return cls(id=override.id, key_values=override.pattern.form, limit=override.limit)

    def read(self) -> LimitOverride:
        """The override."""
        return LimitOverride(id=self.id, pattern=KeyValues.read(self.key_values), limit=self.limit)


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as it is stored: ``key_values`` is the form of its pattern."""

    id: str
    key_values: str
    limit: int
    overrides: tuple[OverrideRow, ...] = ()
    queue: str | None = None
    on: Subject = "running"
    period_ms: int | None = None

    @classmethod
    def of(cls, rule: LimitRule) -> RuleRow:
        return cls(
            id=rule.id,
            key_values=rule.pattern.form,
            limit=rule.limit,
            overrides=tuple(map(OverrideRow.of, rule.overrides)),
            queue=rule.queue,
            on=rule.on,
            period_ms=rule.period_ms,
        )

    def read(self) -> LimitRule:
        """The rule."""
        return LimitRule(
            id=self.id,
            pattern=KeyValues.read(self.key_values),
            limit=self.limit,
            overrides=tuple(override.read() for override in self.overrides),
            queue=self.queue,
            on=self.on,
            period_ms=self.period_ms,
        )


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """An item that counts towards a limit, and its worker if it is in flight.

    A holder of ``counters.acquire`` has no queue (``NO_QUEUE``).
    """

    queue: str
    item: int
    key_values: str | None = None
    worker: str | None = None
    claimed_at: int | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and the counter that it is compared with.

    ``key_values`` is the form of the values that are counted together. ``free_at`` is when a rate
    at its limit has capacity again.
    """

    rule: str
    override: str | None
    queue: str | None
    measure: str
    key_values: str
    limit: int
    used: int
    free_at: int | None = None
    holders: tuple[Holder, ...] = ()

    @classmethod
    def of(
        cls, check: LimitCheck, used: int, free_at: int | None, holders: tuple[Holder, ...] = ()
    ) -> Usage:
        """The usage of a limit whose counter stands at ``used``."""
        return cls(
            rule=check.rule,
            override=check.override,
            queue=named(check.counter.queue),
            measure=check.counter.measure,
            key_values=check.counter.key_values,
            limit=check.limit,
            used=used,
            free_at=free_at,
            holders=holders,
        )

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit


class LimitStore(Protocol):
    """Rules and overrides, which ``queues.claim`` and ``queues.push`` enforce.

    A rule applies to the items of the channels that have its pattern; the empty pattern applies
    to all items. ``model.limits`` decides which limits apply to an item, and which counters it
    adds to. Overrides that apply replace their rule. Every limit that remains must have capacity.
    A limit of -1 is no limit, and 0 admits nothing. No limit is ever exceeded.

    A rule is about one queue, or about all of them together.

    ``running``   items in flight. A claim skips items without capacity and claims the others,
                  whose fair order does not change. The transaction that ends a claim releases its
                  slot, however the claim ends: by an outcome, the end of a lease, the removal of
                  the channel or of the queue. On a queue with rules a claim ends the leases that
                  have run out before it selects items.
    ``rate``      how many items were claimed within the last ``period_ms``: counted by hundredths
                  of the period, so that the limit is never exceeded. Nothing is subtracted.
                  ``next_due`` reports when there is capacity again.
    ``enqueued``  live items, in flight or not. A push that would exceed the limit is answered
                  ``PushFull`` with the rule, as with ``max_items``. Items that the store itself
                  adds are always accepted (see ``queues.push``).

    Rules apply from the moment their operation has returned, and count all existing items: a
    limit below the present count only holds back new items. Waiters for a queue are notified when
    one of its items may have capacity again: after a slot is released, or a rule is changed or
    removed.
    """

    @writes()
    def create(self, rules: Sequence[RuleRow]) -> Op[builtins.list[RuleRow]]:
        """Add rules with their overrides; all or none.

        ``LimitExists`` if a rule has the id, or is about the same: its queue, measure and
        pattern.
        """
        ...

    @reads
    def rule(self, rule: str) -> Op[RuleRow]:
        """A rule, or ``UnknownLimit``. Its overrides are in the order of their ids."""
        ...

    @reads
    def list(self, after: str, limit: int) -> Op[builtins.list[RuleRow]]:
        """Rules by id (in code point order), ``after`` excluded."""
        ...

    @writes(repeatable=True)
    def change(self, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
        """Set the limit of a rule or of one of its overrides; ``UnknownLimit`` if there is none."""
        ...

    @writes()
    def add_override(self, rule: str, override: OverrideRow) -> Op[RuleRow]:
        """One more override. ``UnknownLimit`` if there is no such rule; ``LimitExists`` if the
        rule has one with the id, or with the same pattern."""
        ...

    @writes()
    def delete(self, rule: str) -> Op[RuleRow]:
        """Remove a rule with its overrides, and return it. ``UnknownLimit`` if there is none."""
        ...

    @writes()
    def delete_override(self, rule: str, override: str) -> Op[RuleRow]:
        """Remove an override; returns the rule without it. ``UnknownLimit`` if there is none."""
        ...

    @reads
    def of_item(self, queue: str, item: int, holders: int) -> Op[builtins.list[Usage]]:
        """The limits that apply to a claim on a live item, each with up to ``holders`` holders.

        ``UnknownItem`` if there is no such item.
        """
        ...

    @reads
    def usage(self, rule: str, holders: int) -> Op[builtins.list[Usage]]:
        """The counters that a rule (or an override of it) limits now, by their values.

        Counters at zero are left out. ``UnknownLimit`` if there is no such rule.
        """
        ...
