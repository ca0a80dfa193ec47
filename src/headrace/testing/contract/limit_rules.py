"""Rules and overrides: made, found, changed and removed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.limits import OverrideRow, RuleRow
from headrace.errors import LimitExists, UnknownLimit
from headrace.model.keyvalues import KeyValues
from headrace.model.limits import EVERYTHING
from headrace.model.typed import ANY
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract


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
    """What is stored of limits."""

    def test_a_rule_is_made_and_found(self, desk: Desk) -> None:
        """With all that it says."""
        whole = RuleRow(
            id="whole",
            key_values=pattern(os="mac", tries=3),
            limit=100,
            queue="builds",
            period_ms=60_000,
            overrides=(override("a", 0, os=ANY, tries=ANY), override("b", -1, os="x", tries=1)),
        )
        assert desk.create_limits([BRANCHES, whole]) == [BRANCHES, whole]
        assert desk.limit_rule("whole") == whole
        assert desk.limit_rules("", 10) == [BRANCHES, whole]
        assert desk.limit_rules("branches", 10) == [whole]
        assert desk.limit_rules("", 1) == [BRANCHES]
        with pytest.raises(UnknownLimit) as caught:
            desk.limit_rule("other")
        assert caught.value.rule == "other"

    @pytest.mark.parametrize(
        "same",
        [
            rule("branches", 5, os=ANY),
            rule("other", 5, repo=ANY, branch=ANY),
        ],
        ids=["id", "pattern"],
    )
    def test_two_rules_are_not_about_the_same(self, desk: Desk, same: RuleRow) -> None:
        """Neither has the name of the other; nothing of a call is written then."""
        desk.create_limits([BRANCHES])
        with pytest.raises(LimitExists) as caught:
            desk.create_limits([rule("new", 1, x=1), same])
        assert caught.value.same == "branches"
        assert desk.limit_rules("", 10) == [BRANCHES]

    def test_what_rules_may_have_in_common(self, desk: Desk) -> None:
        """The pattern, if they are about other queues, other items or another time."""
        rules = [
            rule("a", 1, os=ANY),
            rule("b", 1, os=ANY, on="enqueued"),
            rule("c", 1, os="mac"),
            RuleRow(id="d", key_values=pattern(os=ANY), limit=1, queue="q"),
            RuleRow(id="e", key_values=pattern(os=ANY), limit=1, period_ms=1000),
            RuleRow(id="f", key_values=pattern(os=ANY), limit=1, period_ms=60_000),
            rule("g", 1),
        ]
        assert desk.create_limits(rules) == rules
        assert desk.limit_rules("", 10) == rules

    def test_a_number_changes(self, desk: Desk) -> None:
        """Of the rule, or of an override."""
        desk.create_limits([BRANCHES])
        assert desk.add_override("branches", MAIN).overrides == (MAIN,)
        assert desk.change_limit("branches", None, 7).limit == 7
        changed = desk.change_limit("branches", "main", 4)
        assert (changed.limit, changed.overrides[0].limit) == (7, 4)
        assert desk.limit_rule("branches") == changed
        for missing in (("other", None), ("branches", "other"), ("other", "main")):
            with pytest.raises(UnknownLimit):
                desk.change_limit(*missing, 1)

    def test_overrides_of_a_rule(self, desk: Desk) -> None:
        """Each has a name and a pattern of its own within the rule."""
        desk.create_limits([BRANCHES, rule("other", 1, os=ANY)])
        desk.add_override("branches", MAIN)
        desk.add_override("other", override("main", 2, os="mac"))
        for same in (override("main", 1, repo="x", branch=ANY), replace(MAIN, id="new")):
            with pytest.raises(LimitExists) as caught:
                desk.add_override("branches", same)
            assert caught.value.same == "main"
        with pytest.raises(UnknownLimit):
            desk.add_override("none", MAIN)
        assert desk.delete_override("branches", "main").overrides == ()
        with pytest.raises(UnknownLimit):
            desk.delete_override("branches", "main")
        assert len(desk.limit_rule("other").overrides) == 1

    def test_a_rule_goes_with_its_overrides(self, desk: Desk) -> None:
        """Its name is free again."""
        desk.create_limits([BRANCHES])
        desk.add_override("branches", MAIN)
        assert desk.delete_limit("branches").overrides == (MAIN,)
        assert desk.limit_rules("", 10) == []
        with pytest.raises(UnknownLimit):
            desk.delete_limit("branches")
        assert desk.create_limits([BRANCHES]) == [BRANCHES]

    def test_rules_in_a_transaction(self, hr: Any, desk: Desk) -> None:
        """All or none, as everything else."""
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            Desk(tx).create_limits([BRANCHES])
            assert Desk(tx).limit_rules("", 9) == [BRANCHES]
            raise ZeroDivisionError
        assert desk.limit_rules("", 10) == []
        with hr.transaction() as tx:
            Desk(tx).create_limits([BRANCHES])
        assert desk.limit_rules("", 10) == [BRANCHES]

    def test_queues_that_are_concerned_get_another_version(self, desk: Desk) -> None:
        """So that nobody goes on under old rules."""
        a, b = Queue(desk, "a"), Queue(desk, "b")
        before = [a.create().version, b.create().version]
        desk.create_limits([RuleRow(id="r", key_values=pattern(x=1), limit=1, queue="a")])
        assert [a.create().version, b.create().version] == [before[0] + 1, before[1]]
        desk.create_limits([rule("s", 1, x=1)])
        assert [a.create().version, b.create().version] == [before[0] + 2, before[1] + 1]
