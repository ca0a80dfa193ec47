"""The rules of limits in SQL."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.counters import FREE_SLOTS, NO_QUEUE
from headrace.contract.limits import OverrideRow, RuleRow
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.limits.rule_rows import ALL_ROWS, Rulebook, rules_of, written
from headrace.drivers.sql_common.statements import Many, Notify, Row
from headrace.model import error_messages
from headrace.model.limits import rule_edits as edits
from headrace.model.limits.limit_set import CounterKey, LimitSet
from headrace.model.limits.rules import ALL, LimitRule, Subject

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class LimitRules:
    """Makes and changes rules."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def create(self, rules: Sequence[RuleRow]) -> Op[builtins.list[RuleRow]]:
        new = [rule.read() for rule in rules]

        def steps() -> Steps[list[RuleRow]]:
            found = yield from self._change(lambda known: edits.with_rules(known, new))
            return [RuleRow.of(found[rule.id]) for rule in rules]

        return Op("limits.create", steps)

    def rule(self, rule: str) -> Op[RuleRow]:
        def steps() -> Steps[RuleRow]:
            return RuleRow.of((yield from self.find_rule(rule)))

        return Op("limits.rule", steps, writes=False)

    def list(self, after: str, limit: int) -> Op[builtins.list[RuleRow]]:
        def steps() -> Steps[list[RuleRow]]:
            rows = yield self.sql.list_limits(after=after, limit=limit)
            return list(map(RuleRow.of, rules_of(rows).values()))

        return Op("limits.list", steps, writes=False)

    def change(self, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
        def edit(known: Rulebook) -> Rulebook:
            return {**known, rule: edits.numbered(edits.rule_in(known, rule), override, limit)}

        return self._changed("limits.change", rule, edit, repeatable=True)

    def add_override(self, rule: str, override: OverrideRow) -> Op[RuleRow]:
        def edit(known: Rulebook) -> Rulebook:
            return {**known, rule: edits.overridden(edits.rule_in(known, rule), override.read())}

        return self._changed("limits.add_override", rule, edit)

    def delete_override(self, rule: str, override: str) -> Op[RuleRow]:
        def edit(known: Rulebook) -> Rulebook:
            return {**known, rule: edits.without_override(edits.rule_in(known, rule), override)}

        return self._changed("limits.delete_override", rule, edit)

    def delete(self, rule: str) -> Op[RuleRow]:
        def steps() -> Steps[RuleRow]:
            removed: list[LimitRule] = []

            def edit(known: Rulebook) -> Rulebook:
                removed.append(edits.rule_in(known, rule))
                return {id: other for id, other in known.items() if id != rule}

            yield from self._change(edit)
            return RuleRow.of(removed[-1])

        return Op("limits.delete", steps)

    def _changed(
        self,
        name: str,
        rule: str,
        edit: Callable[[Rulebook], Rulebook],
        *,
        repeatable: bool = False,
    ) -> Op[RuleRow]:
        def steps() -> Steps[RuleRow]:
            found = yield from self._change(edit)
            return RuleRow.of(found[rule])

        return Op(name, steps, repeatable=repeatable)

    def find_rule(self, id: str) -> Steps[LimitRule]:
        """A rule, or ``UnknownLimit``."""
        rows = yield self.sql.find_limit(id=id)
        if not rows:
            raise error_messages.unknown_limit(id)
        return rules_of(rows)[id]

    def _change(self, edit: Callable[[Rulebook], Rulebook]) -> Steps[Rulebook]:
        """Change rules while no other operation counts by them, then recount by the new ones."""
        sql = self.sql
        yield sql.lock_limits_exclusive()
        [row] = yield sql.next_limit_version()
        before = yield from self._rules_before(row["version"])
        after = edit(before)
        changed = {id for id in before.keys() | after.keys() if before.get(id) != after.get(id)}
        yield tuple(written(sql, sorted(changed), after))
        concerned = [book[id] for id in changed for book in (before, after) if id in book]
        scopes = {rule.queue for rule in concerned}
        queues = yield sql.limited_queues(
            is_all=None in scopes, names=sorted(name for name in scopes if name is not None)
        )
        # In the order of their ids, as every operation does. Then no operation is inside them.
        yield sql.lock_queues_exclusive(queues=[queue["id"] for queue in queues])
        if self._context.traits.parks_channels:
            # Parked channels may wait for another limit now, or for none.
            ids = [queue["id"] for queue in queues]
            yield sql.unpark_queues(queues=ids), sql.remove_parking_lanes(queues=ids)
        limits = LimitSet(after.values(), row["version"])
        yield from self._recount(limits, {(rule.scope, rule.on) for rule in concerned}, queues)
        versions = [
            {
                "id": queue["id"],
                "limit_version": limits.version
                if limits.concerns(queue["name"], has_channels=bool(queue["has_channels"]))
                else 0,
            }
            for queue in queues
        ]
        if versions:
            yield Many.of(sql.set_limit_versions, versions)
        yield Notify(frozenset({FREE_SLOTS, *(f"queue/{queue['name']}" for queue in queues)}))
        return after

    def _rules_before(self, version: int) -> Steps[Rulebook]:
        """The rules before this change; ``version`` is the one that the change made."""
        known = self._context.cached_limits
        if known is not None and known.version == version - 1:
            return known.rules
        return rules_of((yield self.sql.list_limits(after="", limit=ALL_ROWS)))

    def _recount(
        self, limits: LimitSet, counters: Iterable[tuple[str, Subject]], queues: Sequence[Row]
    ) -> Steps[None]:
        """Count existing items and slots in the counters, by queue and measure, of new rules."""
        for scope, on in sorted(counters):
            mine = {row["id"]: row["name"] for row in queues if scope in (ALL, row["name"])}
            used: Counter[CounterKey] = Counter()
            if limits.has_counters(scope, on):
                counts = yield from self.count_in_scope(scope, mine, on)
                for (queue, form), count in counts.items():
                    for counter in limits.bounds(queue, form, on).counted:
                        if counter.queue == scope and counter.period_ms is None:
                            used[counter] += count
            yield self.sql.reset_limit_counters(queue=scope, measure=on)
            rows = [
                {"name": counter.name, "queue": scope, "measure": on, "used": count}
                for counter, count in sorted(used.items())
            ]
            if rows:
                yield Many.of(self.sql.set_limit_counters, rows)

    def count_in_scope(
        self, scope: str, queues: dict[int, str], on: Subject
    ) -> Steps[Counter[tuple[str, str | None]]]:
        """Everything that adds to the counters of a scope: items, and slots of user code."""
        counts = yield from self._count_items(queues, on)
        if scope == ALL and on == "running":
            rows = yield self.sql.sum_counters()
            counts.update({(NO_QUEUE, row["key_values"]): row["count"] for row in rows})
        return counts

    def _count_items(
        self, queues: dict[int, str], on: Subject
    ) -> Steps[Counter[tuple[str, str | None]]]:
        """How many items are in flight, or live, by queue and channel."""
        count = self.sql.count_running if on == "running" else self.sql.count_live
        rows = yield count(queues=sorted(queues))
        return Counter({(queues[row["queue"]], row["key_values"]): row["count"] for row in rows})
