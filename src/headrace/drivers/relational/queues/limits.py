"""The rules of limits in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from headrace.contract.counters import NO_QUEUE, ROOM
from headrace.contract.limits import OverrideRow, RuleRow
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.base import QueueBase
from headrace.drivers.relational.queues.limit_rows import EVERY, Rulebook, rules_of, written
from headrace.drivers.relational.sql import Announce, Many, Row
from headrace.model import limit_edits as edits
from headrace.model import refusals
from headrace.model.limiting import Bucket, Limits
from headrace.model.limits import ALL, Rule, Subject


class LimitRules(QueueBase):
    """Rules are made and changed."""

    def create_limits(self, rules: Sequence[RuleRow]) -> Op[list[RuleRow]]:
        new = [rule.read() for rule in rules]

        def steps() -> Steps[list[RuleRow]]:
            found = yield from self._change(lambda known: edits.with_rules(known, new))
            return [RuleRow.of(found[rule.id]) for rule in rules]

        return Op("create_limits", steps)

    def limit_rule(self, rule: str) -> Op[RuleRow]:
        def steps() -> Steps[RuleRow]:
            return RuleRow.of((yield from self.rule(rule)))

        return Op("limit_rule", steps, writes=False)

    def limit_rules(self, after: str, limit: int) -> Op[list[RuleRow]]:
        def steps() -> Steps[list[RuleRow]]:
            rows = yield self.sql.list_limits(after=after, limit=limit)
            return list(map(RuleRow.of, rules_of(rows).values()))

        return Op("limit_rules", steps, writes=False)

    def change_limit(self, rule: str, override: str | None, limit: int) -> Op[RuleRow]:
        def edit(known: Rulebook) -> Rulebook:
            return {**known, rule: edits.numbered(edits.rule_in(known, rule), override, limit)}

        return self._changed("change_limit", rule, edit, repeatable=True)

    def add_override(self, rule: str, override: OverrideRow) -> Op[RuleRow]:
        def edit(known: Rulebook) -> Rulebook:
            return {**known, rule: edits.overridden(edits.rule_in(known, rule), override.read())}

        return self._changed("add_override", rule, edit)

    def delete_override(self, rule: str, override: str) -> Op[RuleRow]:
        def edit(known: Rulebook) -> Rulebook:
            return {**known, rule: edits.without_override(edits.rule_in(known, rule), override)}

        return self._changed("delete_override", rule, edit)

    def delete_limit(self, rule: str) -> Op[RuleRow]:
        def steps() -> Steps[RuleRow]:
            removed: list[Rule] = []

            def edit(known: Rulebook) -> Rulebook:
                removed.append(edits.rule_in(known, rule))
                return {id: other for id, other in known.items() if id != rule}

            yield from self._change(edit)
            return RuleRow.of(removed[-1])

        return Op("delete_limit", steps)

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

    def rule(self, id: str) -> Steps[Rule]:
        """A rule, or ``UnknownLimit``."""
        rows = yield self.sql.find_limit(id=id)
        if not rows:
            raise refusals.unknown_limit(id)
        return rules_of(rows)[id]

    def _change(self, edit: Callable[[Rulebook], Rulebook]) -> Steps[Rulebook]:
        """Change rules while nobody counts by them, and count what is there by the new ones."""
        sql = self.sql
        yield sql.close_limits()
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
        # In the order of their ids, whoever else does so: nobody is in the middle of it then.
        yield sql.close_queues(queues=[queue["id"] for queue in queues])
        if self.files:
            # What they wait for may be another limit now, or none.
            ids = [queue["id"] for queue in queues]
            yield sql.unfile_queues(queues=ids), sql.remove_files(queues=ids)
        limits = Limits(after.values(), row["version"])
        yield from self._recount(limits, {(rule.scope, rule.on) for rule in concerned}, queues)
        numbers = [
            {
                "id": queue["id"],
                "limits": limits.version
                if limits.concerns(queue["name"], has_channels=bool(queue["has_channels"]))
                else 0,
            }
            for queue in queues
        ]
        if numbers:
            yield Many.of(sql.set_queue_limits, numbers)
        yield Announce(frozenset({ROOM, *(f"queue/{queue['name']}" for queue in queues)}))
        return after

    def _rules_before(self, version: int) -> Steps[Rulebook]:
        """The rules as they were until this change, which made them have a version."""
        known = self.known_limits
        if known is not None and known.version == version - 1:
            return known.rules
        return rules_of((yield self.sql.list_limits(after="", limit=EVERY)))

    def _recount(
        self, limits: Limits, totals: Iterable[tuple[str, Subject]], queues: Sequence[Row]
    ) -> Steps[None]:
        """Count what is there in some totals, by queue and measure, that have new rules."""
        for scope, on in sorted(totals):
            mine = {row["id"]: row["name"] for row in queues if scope in (ALL, row["name"])}
            used: Counter[Bucket] = Counter()
            if limits.has_totals(scope, on):
                held = yield from self.held_in(scope, mine, on)
                for (queue, form), count in held.items():
                    for bucket in limits.bounds(queue, form, on).counted:
                        if bucket.queue == scope and bucket.period_ms is None:
                            used[bucket] += count
            yield self.sql.clear_buckets(queue=scope, measure=on)
            rows = [
                {"name": bucket.name, "queue": scope, "measure": on, "used": count}
                for bucket, count in sorted(used.items())
            ]
            if rows:
                yield Many.of(self.sql.set_buckets, rows)

    def held_in(
        self, scope: str, queues: dict[int, str], on: Subject
    ) -> Steps[Counter[tuple[str, str | None]]]:
        """All that counts in the totals of a scope: items, and counters of user code."""
        held = yield from self.held(queues, on)
        if scope == ALL and on == "running":
            rows = yield self.sql.sum_counters()
            held.update({(NO_QUEUE, row["key_values"]): row["count"] for row in rows})
        return held

    def held(self, queues: dict[int, str], on: Subject) -> Steps[Counter[tuple[str, str | None]]]:
        """How many items are out, or live, by queue and channel."""
        count = self.sql.count_running if on == "running" else self.sql.count_held
        rows = yield count(queues=sorted(queues))
        return Counter({(queues[row["queue"]], row["key_values"]): row["count"] for row in rows})
