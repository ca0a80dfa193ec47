"""Limit rules and overrides: create, find, change, delete."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.limits import OverrideRow, RuleRow
from headrace.errors import LimitExists, UnknownLimit
from headrace.model.limits.rules import EVERYTHING
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY
from headrace.testing.contract.base import needs
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps


def pattern(**pairs: Any) -> str:
    """The form of a pattern of key-values."""
    return (KeyValues.of(pairs, allow_any=True) if pairs else EVERYTHING).form


def rule(id: str, limit: int, *, on: Any = "running", **pairs: Any) -> RuleRow:
    """A rule about all queues."""
    return RuleRow(id=id, key_values=pattern(**pairs), limit=limit, on=on)


def override(id: str, limit: int, **pairs: Any) -> OverrideRow:
    return OverrideRow(id=id, key_values=pattern(**pairs), limit=limit)


BRANCHES = rule("branches", 1, repo=ANY, branch=ANY)
MAIN = override("main", -1, repo="willow", branch="main")


class LimitRuleContract(QueueContract):
    """How rules and overrides are stored."""

    needed_parts = frozenset({"limits"})

    def test_a_rule_is_stored_with_all_its_fields(self, ops: StoreOps) -> None:
        whole = RuleRow(
            id="whole",
            key_values=pattern(os="mac", tries=3),
            limit=100,
            queue="builds",
            period_ms=60_000,
            overrides=(override("a", 0, os=ANY, tries=ANY), override("b", -1, os="x", tries=1)),
        )
        assert ops.limits.create([BRANCHES, whole]) == [BRANCHES, whole]
        assert ops.limits.rule("whole") == whole
        assert ops.limits.list("", 10) == [BRANCHES, whole]
        assert ops.limits.list("branches", 10) == [whole]
        assert ops.limits.list("", 1) == [BRANCHES]
        with pytest.raises(UnknownLimit) as caught:
            ops.limits.rule("other")
        assert caught.value.rule == "other"

    @pytest.mark.parametrize(
        "same",
        [
            rule("branches", 5, os=ANY),
            rule("other", 5, repo=ANY, branch=ANY),
        ],
        ids=["id", "pattern"],
    )
    def test_duplicate_rules_are_refused(self, ops: StoreOps, same: RuleRow) -> None:
        """Two rules share neither a name nor a subject. A call with a duplicate writes nothing."""
        ops.limits.create([BRANCHES])
        with pytest.raises(LimitExists) as caught:
            ops.limits.create([rule("new", 1, x=1), same])
        assert caught.value.same == "branches"
        assert ops.limits.list("", 10) == [BRANCHES]

    def test_rules_may_share_a_pattern(self, ops: StoreOps) -> None:
        """They may if they concern different queues, different items or different periods."""
        rules = [
            rule("a", 1, os=ANY),
            rule("b", 1, os=ANY, on="enqueued"),
            rule("c", 1, os="mac"),
            RuleRow(id="d", key_values=pattern(os=ANY), limit=1, queue="q"),
            RuleRow(id="e", key_values=pattern(os=ANY), limit=1, period_ms=1000),
            RuleRow(id="f", key_values=pattern(os=ANY), limit=1, period_ms=60_000),
            rule("g", 1),
        ]
        assert ops.limits.create(rules) == rules
        assert ops.limits.list("", 10) == rules

    def test_a_limit_is_changed(self, ops: StoreOps) -> None:
        """The limit of a rule or of an override."""
        ops.limits.create([BRANCHES])
        assert ops.limits.add_override("branches", MAIN).overrides == (MAIN,)
        assert ops.limits.change("branches", None, 7).limit == 7
        changed = ops.limits.change("branches", "main", 4)
        assert (changed.limit, changed.overrides[0].limit) == (7, 4)
        assert ops.limits.rule("branches") == changed
        for missing in (("other", None), ("branches", "other"), ("other", "main")):
            with pytest.raises(UnknownLimit):
                ops.limits.change(*missing, 1)

    def test_overrides_of_a_rule(self, ops: StoreOps) -> None:
        """Each override has a name and a pattern of its own within the rule."""
        ops.limits.create([BRANCHES, rule("other", 1, os=ANY)])
        ops.limits.add_override("branches", MAIN)
        ops.limits.add_override("other", override("main", 2, os="mac"))
        for same in (override("main", 1, repo="x", branch=ANY), replace(MAIN, id="new")):
            with pytest.raises(LimitExists) as caught:
                ops.limits.add_override("branches", same)
            assert caught.value.same == "main"
        with pytest.raises(UnknownLimit):
            ops.limits.add_override("none", MAIN)
        assert ops.limits.delete_override("branches", "main").overrides == ()
        with pytest.raises(UnknownLimit):
            ops.limits.delete_override("branches", "main")
        assert len(ops.limits.rule("other").overrides) == 1

    def test_deleting_a_rule_deletes_its_overrides(self, ops: StoreOps) -> None:
        """The name of the rule is free again."""
        ops.limits.create([BRANCHES])
        ops.limits.add_override("branches", MAIN)
        assert ops.limits.delete("branches").overrides == (MAIN,)
        assert ops.limits.list("", 10) == []
        with pytest.raises(UnknownLimit):
            ops.limits.delete("branches")
        assert ops.limits.create([BRANCHES]) == [BRANCHES]

    @needs("transactions")
    def test_rules_in_a_transaction(self, hr: Any, ops: StoreOps) -> None:
        """A transaction creates all its rules or none."""
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            StoreOps(tx).limits.create([BRANCHES])
            assert StoreOps(tx).limits.list("", 9) == [BRANCHES]
            raise ZeroDivisionError
        assert ops.limits.list("", 10) == []
        with hr.transaction() as tx:
            StoreOps(tx).limits.create([BRANCHES])
        assert ops.limits.list("", 10) == [BRANCHES]

    def test_a_rule_changes_the_version_of_its_queues(self, ops: StoreOps) -> None:
        """Clients that cached the queue notice the change and stop using the old rules."""
        a, b = Queue(ops, "a"), Queue(ops, "b")
        before = [a.create().version, b.create().version]
        ops.limits.create([RuleRow(id="r", key_values=pattern(x=1), limit=1, queue="a")])
        assert [a.create().version, b.create().version] == [before[0] + 1, before[1]]
        ops.limits.create([rule("s", 1, x=1)])
        assert [a.create().version, b.create().version] == [before[0] + 2, before[1] + 1]
