"""The rules of limits in memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.contract.counters import ROOM
from headrace.contract.limits import OverrideRow, RuleRow, Usage
from headrace.contract.op import Op
from headrace.drivers.memory.items import MemoryItems
from headrace.drivers.memory.topics import immediate
from headrace.drivers.memory.totals import bounds_of, limited_now, usages
from headrace.model import limit_edits as edits
from headrace.model.limiting import Limits
from headrace.model.limits import Rule


class MemoryLimits(MemoryItems):
    """Rules are made and changed."""

    def create_limits(self, rules: Sequence[RuleRow]) -> Op[list[RuleRow]]:
        def act() -> list[RuleRow]:
            found = edits.with_rules(self.data.limits.rules, [rule.read() for rule in rules])
            self._set_rules(found)
            return [RuleRow.of(found[rule.id]) for rule in rules]

        return immediate("create_limits", act)

    def limit_rule(self, rule: str) -> Op[RuleRow]:
        return immediate("limit_rule", lambda: RuleRow.of(self._rule(rule)), writes=False)

    def limit_rules(self, after: str, limit: int) -> Op[list[RuleRow]]:
        def act() -> list[RuleRow]:
            rules = self.data.limits.rules
            return [RuleRow.of(rules[id]) for id in sorted(rules) if id > after][:limit]

        return immediate("limit_rules", act, writes=False)

    def change_limit(self, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
        def act() -> RuleRow:
            return self._put(edits.numbered(self._rule(rule), override, limit))

        return immediate("change_limit", act)

    def add_override(self, rule: str, override: OverrideRow) -> Op[RuleRow]:
        def act() -> RuleRow:
            return self._put(edits.overridden(self._rule(rule), override.read()))

        return immediate("add_override", act)

    def delete_limit(self, rule: str) -> Op[RuleRow]:
        def act() -> RuleRow:
            found = self._rule(rule)
            rules = self.data.limits.rules
            self._set_rules({id: other for id, other in rules.items() if id != rule})
            return RuleRow.of(found)

        return immediate("delete_limit", act)

    def delete_override(self, rule: str, override: str) -> Op[RuleRow]:
        def act() -> RuleRow:
            return self._put(edits.without_override(self._rule(rule), override))

        return immediate("delete_override", act)

    def _rule(self, id: str) -> Rule:
        return edits.rule_in(self.data.limits.rules, id)

    def _put(self, rule: Rule) -> RuleRow:
        self._set_rules({**self.data.limits.rules, rule.id: rule})
        return RuleRow.of(rule)

    def _set_rules(self, rules: dict[str, Rule]) -> None:
        before = self.data.limits.rules
        self.change(self.data, limits=Limits(rules.values(), self.data.limits.version + 1))
        changed = [
            book[id]
            for id in before.keys() | rules.keys()
            if before.get(id) != rules.get(id)
            for book in (before, rules)
            if id in book
        ]
        scopes = {rule.queue for rule in changed}
        self.data.announced.add(ROOM)
        for name, queue in self.data.queues.items():
            if queue.info is not None and scopes & {None, name}:
                info = replace(queue.info, version=queue.info.version + 1)
                self.change(queue, info=info)
                self.announce(name)

    def item_limits(self, queue: str, item: int, holders: int) -> Op[list[Usage]]:
        def act() -> list[Usage]:
            data, _ = self.queue(queue)
            found = bounds_of(self.data, self.live_item(data, queue, item), "running")
            return usages(self.data, found.checked, "running", self.now(), holders)

        return immediate("item_limits", act, writes=False)

    def limit_usage(self, rule: str, holders: int) -> Op[list[Usage]]:
        def act() -> list[Usage]:
            on = self._rule(rule).on
            found = limited_now(self.data, rule, on)
            ordered = sorted(found, key=lambda bound: (bound.bucket, bound.override or ""))
            some = usages(self.data, ordered, on, self.now(), holders)
            return [usage for usage in some if usage.used]

        return immediate("limit_usage", act, writes=False)
