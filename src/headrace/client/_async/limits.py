"""Limits: rules are made and changed here, and their usage is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.client.workflows.limits import (
    list_rules,
    match_rules,
    override_rule,
    read,
    set_rule,
    simulate_rule,
    usages,
)
from headrace.contract.limits import RuleRow
from headrace.contract.op import Op
from headrace.contract.store import Session
from headrace.core.limits import GroupBy, LimitTrial, LimitUsage, rule_name, rule_of
from headrace.core.requests.request import Request
from headrace.model.checks import not_negative
from headrace.model.limits.rules import LimitRule, Subject, check_limit
from headrace.model.query.patterns import MatchQuery
from headrace.model.query.queries import Query
from headrace.model.times import Duration

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


DEFAULT_HOLDERS = 10

Rules = list[LimitRule]
Usages = list[LimitUsage]
Trials = list[LimitTrial]


class AsyncLimits:
    """The limits of a store, for async code."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> LimitRule:
        """Make a rule: of what has the same values under these keys, so many and no more.

        ``group_by`` says which channels it applies to: those with these key-values, where ``ANY``
        stands for all values of a key, each counted apart. None is all items, in a channel or
        not, counted together. ``limit`` is how many may run at the same time, or start ``per``
        period; -1 is no limit, 0 lets nothing through. With ``on="enqueued"`` it is how many may
        wait and run, and a push beyond it raises ``QueueFull``. Without a ``queue`` the items of
        all queues count together. It counts what is there already, from now on, in all processes.

        ``LimitExists`` if there is one of that name, or one about the same.
        """
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        return await self._client._run(
            Request(self._rules.limits.create([RuleRow.of(rule)]), _first)
        )

    async def set(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> LimitRule:
        """``create``, or another number for the rule that is about the same."""
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        return await self._client._follow(set_rule(self._rules, rule, is_named=name is not None))

    @property
    def _rules(self) -> Session:
        return self._client._open_store

    async def override(
        self, rule: str, group_by: Mapping[str, Any], limit: int, *, name: str | None = None
    ) -> LimitRule:
        """Another limit for some of what a rule applies to; its pattern has all keys of the rule.

        Where overrides of a rule apply, all of them must have free slots, and the rule itself does not
        count; what they let through still counts for the rule. If one has this pattern, it gets
        the number.
        """
        checked = rule_name("rule", rule)
        return await self._client._follow(
            override_rule(self._rules, checked, group_by, limit, name)
        )

    async def update(self, rule: str, limit: int, *, override: str | None = None) -> LimitRule:
        """Another number for a rule, or for an override of it.

        Lowering a limit does not interrupt running items. No further item starts until usage
        drops below it.
        """
        return await self._client._run(Request(_change(self._rules, rule, override, limit), read))

    async def delete(self, rule: str, *, override: str | None = None) -> LimitRule:
        """Remove a rule with its overrides, or one override; the rule as it was, or is then."""
        return await self._client._run(Request(_delete(self._rules, rule, override), read))

    async def get(self, rule: str) -> LimitRule:
        """A rule with its overrides; ``UnknownLimit`` if there is none."""
        return await self._client._run(
            Request(self._rules.limits.rule(rule_name("rule", rule)), read)
        )

    async def list(self, select: Query | None = None) -> Rules:
        """All rules by name, or those whose ``group_by`` a query selects."""
        return await self._client._follow(list_rules(self._rules, select))

    async def match(self, key_values: Mapping[str, Any] | MatchQuery) -> Rules:
        """The rules that apply to such key-values, each with the overrides that do."""
        return await self._client._follow(match_rules(self._rules, _match(key_values)))

    async def usage(self, rule: str, *, holders: int = DEFAULT_HOLDERS) -> Usages:
        """How much of a limit is used, for each set of values that something counts in.

        With some of the items that count.
        """
        op = self._rules.limits.usage(rule_name("rule", rule), not_negative("holders", holders))
        return await self._client._run(Request(op, usages))

    async def simulate(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
    ) -> Trials:
        """What a rule would mean for what waits and runs now, by values; nothing is changed."""
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=None)
        return await self._client._follow(simulate_rule(self._rules, rule))


def _match(key_values: Mapping[str, Any] | MatchQuery) -> MatchQuery:
    return key_values if isinstance(key_values, MatchQuery) else MatchQuery.of(key_values)


def _change(store: Session, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
    number = check_limit("limit", limit)
    return store.limits.change(rule_name("rule", rule), _override(override), number)


def _delete(store: Session, rule: str, override: str | None) -> Op[RuleRow]:
    name, part = rule_name("rule", rule), _override(override)
    return store.limits.delete(name) if part is None else store.limits.delete_override(name, part)


def _override(name: str | None) -> str | None:
    return None if name is None else rule_name("override", name)


def _first(rows: list[RuleRow]) -> LimitRule:
    return read(rows[0])
