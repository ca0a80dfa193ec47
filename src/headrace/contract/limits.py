"""Limits: what every driver implements. See ``contract.queues`` and ``model.limits``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from headrace.contract.op import Op
from headrace.model.keyvalues import KeyValues
from headrace.model.limits import Override, Rule, Subject


class OverrideRow(msgspec.Struct, frozen=True, kw_only=True):
    """An override as it is stored: ``key_values`` is the form of its pattern."""

    id: str
    key_values: str
    limit: int

    @classmethod
    def of(cls, override: Override) -> OverrideRow:
        return cls(id=override.id, key_values=override.pattern.form, limit=override.limit)

    def read(self) -> Override:
        """The override."""
        return Override(id=self.id, pattern=KeyValues.read(self.key_values), limit=self.limit)


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
    def of(cls, rule: Rule) -> RuleRow:
        return cls(
            id=rule.id,
            key_values=rule.pattern.form,
            limit=rule.limit,
            overrides=tuple(map(OverrideRow.of, rule.overrides)),
            queue=rule.queue,
            on=rule.on,
            period_ms=rule.period_ms,
        )

    def read(self) -> Rule:
        """The rule."""
        return Rule(
            id=self.id,
            pattern=KeyValues.read(self.key_values),
            limit=self.limit,
            overrides=tuple(override.read() for override in self.overrides),
            queue=self.queue,
            on=self.on,
            period_ms=self.period_ms,
        )


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """An item that counts in a total, and who has it if it is out; a counter of user code has no
    queue (``NO_QUEUE``)."""

    queue: str
    item: int
    key_values: str | None = None
    worker: str | None = None
    claimed_at: int | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and the total that it looks at.

    ``key_values`` is the form of the values that are counted together. ``room_at`` is when time
    brings room, for a rate that has none.
    """

    rule: str
    override: str | None
    queue: str | None
    measure: str
    key_values: str
    limit: int
    used: int
    room_at: int | None = None
    holders: tuple[Holder, ...] = ()

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit


class LimitStore(Protocol):
    """Rules and overrides; what they say is enforced by ``claim_items`` and ``push``.

    A rule applies to the items of the channels that have its pattern; the empty pattern applies
    to all items. Which limits hold for an item, and which totals it counts in, is ``model.limits``:
    any overrides that apply stand in place of their rule, all that is left must have room, -1 is
    no limit and 0 lets nothing through. Nothing gets more than fits.

    A rule is about one queue, or about all of them together.

    ``running``   items that are out. A claim passes over what has no room, and takes what has;
                  the fair order stays as it is for the others. A slot is given back in the
                  transaction that ends the claim, however that is: by an outcome, the end of a
                  lease, the removal of the channel or the queue. On a queue with rules a claim
                  ends the leases that have run out before it looks for items.
    ``rate``      how many were handed out within the last ``period_ms``: counted by hundredths of
                  the period, so that it is never exceeded. Nothing is given back. ``next_due``
                  tells when there is room again.
    ``enqueued``  live items, out or not. A push that makes more of them than fit is answered
                  ``PushFull`` with the rule, as with ``max_items``; what comes by itself always
                  comes.

    Rules count from the moment their operation has returned, and look at all that is there
    already: a limit below the present total only holds back what is new. Whoever waits for a
    queue is woken when one of its items may have got room: by a slot that is given back, a rule
    that is changed or removed.
    """

    def create_limits(self, rules: Sequence[RuleRow]) -> Op[list[RuleRow]]:
        """Add rules with their overrides; all or none.

        ``LimitExists`` if a rule has the id, or is about the same: its queue, measure and
        pattern.
        """
        ...

    def limit_rule(self, rule: str) -> Op[RuleRow]:
        """A rule, or ``UnknownLimit``. Its overrides are in the order of their ids."""
        ...

    def limit_rules(self, after: str, limit: int) -> Op[list[RuleRow]]:
        """Rules by id (in code point order), ``after`` excluded."""
        ...

    def change_limit(self, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
        """Another number for a rule or one of its overrides; ``UnknownLimit`` if there is none."""
        ...

    def add_override(self, rule: str, override: OverrideRow) -> Op[RuleRow]:
        """One more override. ``UnknownLimit`` if there is no such rule; ``LimitExists`` if the
        rule has one with the id, or with the same pattern."""
        ...

    def delete_limit(self, rule: str) -> Op[RuleRow]:
        """Remove a rule with its overrides; what it was. ``UnknownLimit`` if there is none."""
        ...

    def delete_override(self, rule: str, override: str) -> Op[RuleRow]:
        """Remove an override; the rule without it. ``UnknownLimit`` if there is none."""
        ...

    def item_limits(self, queue: str, item: int, holders: int) -> Op[list[Usage]]:
        """The limits that hold for handing out a live item, with up to so many ``holders`` of
        each. ``UnknownItem`` if there is none."""
        ...

    def limit_usage(self, rule: str, holders: int) -> Op[list[Usage]]:
        """The totals that a rule (or an override of it) limits now, by the values; those that
        nothing counts in are left out. ``UnknownLimit`` if there is none."""
        ...
