"""Limits: how a client makes and changes rules, and looks at what they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.client.calls import Call
from headrace.client.limit_plans import (
    listing,
    matching,
    overriding,
    read,
    setting,
    trying,
    usages,
)
from headrace.client.lock_operations import AsyncLockOperations, LockOperations
from headrace.client.running import documented
from headrace.contract.limits import RuleRow
from headrace.contract.op import Op
from headrace.contract.queues import QueueStore
from headrace.core.limits import GroupBy, LimitTrial, LimitUsage, rule_of
from headrace.core.times import Duration
from headrace.model.limits import Rule, Subject, check_limit
from headrace.model.patterns import MatchQuery
from headrace.model.queries import Query

SOME_HOLDERS = 10


class LimitOperations(LockOperations):
    """Limits for blocking code."""

    def create_limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> Rule:
        """Make a rule: of what has the same values under these keys, so many and no more.

        ``group_by`` says which channels it applies to: those with these key-values, where ``ANY``
        stands for all values of a key, each counted apart. None is all items, in a channel or
        not, counted together. ``limit`` is how many may run at once, or be handed out ``per``
        period; -1 is no limit, 0 lets nothing through. With ``on="enqueued"`` it is how many may
        wait and run, and a push beyond it raises ``QueueFull``. Without a ``queue`` the items of
        all queues count together. It counts what is there already, from now on, in all processes.

        ``LimitExists`` if there is one of that name, or one about the same.
        """
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        _ = self._calls
        return self._run(Call(self._store.create_limits([RuleRow.of(rule)]), _first))

    def set_limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> Rule:
        """``create_limit``, or another number for the rule that is about the same."""
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        return self._follow(setting(self._rules, rule, is_named=name is not None))

    @property
    def _rules(self) -> QueueStore:
        _ = self._calls
        return self._store

    def override_limit(
        self, rule: str, group_by: Mapping[str, Any], limit: int, *, name: str | None = None
    ) -> Rule:
        """Another limit for some of what a rule applies to; its pattern has all keys of the rule.

        Where overrides of a rule apply, all of them must have room, and the rule itself does not
        count; what they let through still counts for the rule. If one has this pattern, it gets
        the number.
        """
        return self._follow(overriding(self._rules, rule, group_by, limit, name))

    def change_limit(self, rule: str, limit: int, *, override: str | None = None) -> Rule:
        """Another number for a rule, or for an override of it.

        What is out above a lower limit stays out; nothing new is let through until there is room.
        """
        return self._run(Call(_changing(self._rules, rule, override, limit), read))

    def delete_limit(self, rule: str, *, override: str | None = None) -> Rule:
        """Remove a rule with its overrides, or one override; the rule as it was, or is then."""
        return self._run(Call(_deleting(self._rules, rule, override), read))

    def limit(self, rule: str) -> Rule:
        """A rule with its overrides; ``UnknownLimit`` if there is none."""
        return self._run(Call(self._rules.limit_rule(rule), read))

    def limits(self, select: Query | None = None) -> list[Rule]:
        """All rules by name, or those whose ``group_by`` a query selects."""
        return self._follow(listing(self._rules, select))

    def match_limits(self, key_values: Mapping[str, Any] | MatchQuery) -> list[Rule]:
        """The rules that apply to such key-values, each with the overrides that do."""
        return self._follow(matching(self._rules, _match(key_values)))

    def limit_usage(self, rule: str, *, holders: int = SOME_HOLDERS) -> list[LimitUsage]:
        """How much of a limit is used, for each set of values that something counts in.

        With some of the items that count.
        """
        return self._run(Call(self._rules.limit_usage(rule, holders), usages))

    def try_limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
    ) -> list[LimitTrial]:
        """What a rule would mean for what waits and runs now, by values; nothing is changed."""
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=None)
        return self._follow(trying(self._rules, rule))


class AsyncLimitOperations(AsyncLockOperations):
    """Limits for async code."""

    async def create_limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> Rule:
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        _ = self._calls
        return await self._run(Call(self._store.create_limits([RuleRow.of(rule)]), _first))

    async def set_limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> Rule:
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        return await self._follow(setting(self._rules, rule, is_named=name is not None))

    @property
    def _rules(self) -> QueueStore:
        _ = self._calls
        return self._store

    async def override_limit(
        self, rule: str, group_by: Mapping[str, Any], limit: int, *, name: str | None = None
    ) -> Rule:
        return await self._follow(overriding(self._rules, rule, group_by, limit, name))

    async def change_limit(self, rule: str, limit: int, *, override: str | None = None) -> Rule:
        return await self._run(Call(_changing(self._rules, rule, override, limit), read))

    async def delete_limit(self, rule: str, *, override: str | None = None) -> Rule:
        return await self._run(Call(_deleting(self._rules, rule, override), read))

    async def limit(self, rule: str) -> Rule:
        return await self._run(Call(self._rules.limit_rule(rule), read))

    async def limits(self, select: Query | None = None) -> list[Rule]:
        return await self._follow(listing(self._rules, select))

    async def match_limits(self, key_values: Mapping[str, Any] | MatchQuery) -> list[Rule]:
        return await self._follow(matching(self._rules, _match(key_values)))

    async def limit_usage(self, rule: str, *, holders: int = SOME_HOLDERS) -> list[LimitUsage]:
        return await self._run(Call(self._rules.limit_usage(rule, holders), usages))

    async def try_limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: Subject = "running",
        per: Duration | None = None,
    ) -> list[LimitTrial]:
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=None)
        return await self._follow(trying(self._rules, rule))


def _first(rows: list[RuleRow]) -> Rule:
    return read(rows[0])


def _match(key_values: Mapping[str, Any] | MatchQuery) -> MatchQuery:
    return key_values if isinstance(key_values, MatchQuery) else MatchQuery.of(key_values)


def _changing(store: QueueStore, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
    return store.change_limit(rule, override, check_limit("limit", limit))


def _deleting(store: QueueStore, rule: str, override: str | None) -> Op[RuleRow]:
    return store.delete_limit(rule) if override is None else store.delete_override(rule, override)


documented(AsyncLimitOperations, LimitOperations)
