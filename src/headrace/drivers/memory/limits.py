"""The rules of limits in memory."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.counters import FREE_SLOTS
from headrace.contract.limits import OverrideRow, RuleRow, Usage
from headrace.contract.op import Op
from headrace.drivers.memory.limit_counters import bounds_of, limited_now, usages
from headrace.drivers.memory.topics import immediate
from headrace.model.limits import rule_edits as edits
from headrace.model.limits.limit_set import LimitSet
from headrace.model.limits.rules import LimitRule

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryLimits:
    """Rules are created and changed."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def create(self, rules: Sequence[RuleRow]) -> Op[builtins.list[RuleRow]]:
        def act() -> list[RuleRow]:
            found = edits.with_rules(self.data.limits.rules, [rule.read() for rule in rules])
            self._set_rules(found)
            return [RuleRow.of(found[rule.id]) for rule in rules]

        return immediate("limits.create", act)

    def rule(self, rule: str) -> Op[RuleRow]:
        return immediate("limits.rule", lambda: RuleRow.of(self._rule(rule)), writes=False)

    def list(self, after: str, limit: int) -> Op[builtins.list[RuleRow]]:
        def act() -> list[RuleRow]:
            rules = self.data.limits.rules
            return [RuleRow.of(rules[id]) for id in sorted(rules) if id > after][:limit]

        return immediate("limits.list", act, writes=False)

    def change(self, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
        def act() -> RuleRow:
            return self._put(edits.numbered(self._rule(rule), override, limit))

        return immediate("limits.change", act)

    def add_override(self, rule: str, override: OverrideRow) -> Op[RuleRow]:
        def act() -> RuleRow:
            return self._put(edits.overridden(self._rule(rule), override.read()))

        return immediate("limits.add_override", act)

    def delete(self, rule: str) -> Op[RuleRow]:
        def act() -> RuleRow:
            found = self._rule(rule)
            rules = self.data.limits.rules
            self._set_rules({id: other for id, other in rules.items() if id != rule})
            return RuleRow.of(found)

        return immediate("limits.delete", act)

    def delete_override(self, rule: str, override: str) -> Op[RuleRow]:
        def act() -> RuleRow:
            return self._put(edits.without_override(self._rule(rule), override))

        return immediate("limits.delete_override", act)

    def _rule(self, id: str) -> LimitRule:
        return edits.rule_in(self.data.limits.rules, id)

    def _put(self, rule: LimitRule) -> RuleRow:
        self._set_rules({**self.data.limits.rules, rule.id: rule})
        return RuleRow.of(rule)

    def _set_rules(self, rules: dict[str, LimitRule]) -> None:
        before = self.data.limits.rules
        self._context.storage.change(
            self.data, limits=LimitSet(rules.values(), self.data.limits.version + 1)
        )
        changed = [
            book[id]
            for id in before.keys() | rules.keys()
            if before.get(id) != rules.get(id)
            for book in (before, rules)
            if id in book
        ]
        scopes = {rule.queue for rule in changed}
        self.data.announced.add(FREE_SLOTS)
        for name, queue in self.data.queues.items():
            if queue.info is not None and scopes & {None, name}:
                info = replace(queue.info, version=queue.info.version + 1)
                self._context.storage.change(queue, info=info)
                self._context.storage.announce(name)

    def of_item(self, queue: str, item: int, holders: int) -> Op[builtins.list[Usage]]:
        def act() -> list[Usage]:
            data, _ = self._context.storage.queue(queue)
            found = bounds_of(
                self.data, self._context.storage.live_item(data, queue, item), "running"
            )
            return usages(self.data, found.checked, "running", self.now(), holders)

        return immediate("limits.of_item", act, writes=False)

    def usage(self, rule: str, holders: int) -> Op[builtins.list[Usage]]:
        def act() -> list[Usage]:
            on = self._rule(rule).on
            found = limited_now(self.data, rule, on)
            ordered = sorted(found, key=lambda check: (check.counter, check.override or ""))
            some = usages(self.data, ordered, on, self.now(), holders)
            return [usage for usage in some if usage.used]

        return immediate("limits.usage", act, writes=False)
