"""Limits as users meet them, through a client."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.core.limits import LimitTrial
from headrace.core.where import where
from headrace.errors import (
    InvalidInput,
    InvalidKeyValues,
    InvalidOption,
    LimitExists,
    QueueFull,
    UnknownLimit,
)
from headrace.model.keyvalues import KeyValues
from headrace.model.typed import ANY
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_clients import soon

MAIN = {"repo": "willow", "branch": "main"}
BRANCH = {"repo": "willow", "branch": "f72"}


class LimitClientContract(Contract):
    """Limits through clients, blocking and async."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queue("commits")

    def test_the_farm_of_the_seed(self, hr: Any, q: Any) -> None:
        """One build per branch but main; Windows and Mac only for main."""
        branches = hr.create_limit({"repo": ANY, "branch": ANY}, 1, name="branches")
        hr.override_limit("branches", MAIN, -1, name="main")
        hr.create_limit({"os": ANY}, 0, name="systems")
        hr.override_limit("systems", {"os": "linux"}, -1)
        for system in ("windows", "mac"):
            hr.override_limit("systems", {"os": system, "branch": "main"}, -1)
        assert (branches.limit, branches.kind, branches.queue) == (1, "concurrency", None)
        wanted = [
            (MAIN, "windows", True),
            (MAIN, "windows", True),
            (MAIN, "mac", True),
            (MAIN, "linux", True),
            (BRANCH, "windows", False),
            (BRANCH, "mac", False),
            (BRANCH, "linux", True),
            (BRANCH, "linux", False),
            (BRANCH | {"branch": "f73"}, "linux", True),
            (MAIN, "bsd", False),
        ]
        q.push_many(
            [Doc(n, channel={**pairs, "os": os}) for n, (pairs, os, _) in enumerate(wanted)]
        )
        runs = [n for n, (_, _, is_run) in enumerate(wanted) if is_run]
        items = q.claim(99)
        assert [item.payload for item in items] == runs
        items[runs.index(6)].complete()
        assert [item.payload for item in q.claim(99)] == [7]

    def test_to_set_is_to_make_or_to_change(self, hr: Any) -> None:
        """What is about the same gets the number, whatever its name."""
        made = hr.set_limit({"os": ANY}, 2)
        assert hr.set_limit({"os": ANY}, 3).id == made.id
        assert hr.set_limit({"os": ANY}, 4, name=made.id).limit == 4
        hr.set_limit({"os": ANY}, 5, on="enqueued", name="other")
        with pytest.raises(LimitExists):
            hr.set_limit({"os": ANY}, 5, name="third")
        with pytest.raises(LimitExists):
            hr.set_limit({"x": 1}, 5, name="other")
        with pytest.raises(LimitExists):
            hr.create_limit({"os": ANY}, 5)
        assert sorted(rule.limit for rule in hr.limits()) == [4, 5]
        hr.override_limit("other", {"os": "mac"}, 1, name="mac")
        assert hr.override_limit("other", {"os": "mac"}, 2).override("mac").limit == 2
        assert hr.change_limit("other", 7, override="mac").override("mac").limit == 7
        assert hr.change_limit("other", 8).limit == 8

    def test_rules_are_found(self, hr: Any) -> None:
        """By name, by query, and by what they apply to."""
        hr.create_limit({"os": ANY}, 1, name="any")
        hr.create_limit({"os": "mac"}, 1, name="mac")
        hr.create_limit({"os": "mac", "x": 1}, 1, name="both")
        hr.create_limit(None, 9, queue="commits", name="all")
        hr.override_limit("any", {"os": "mac"}, 1, name="mac")
        hr.override_limit("any", {"os": "linux"}, 1, name="linux")
        assert [rule.id for rule in hr.limits()] == ["all", "any", "both", "mac"]
        assert [rule.id for rule in hr.limits(where(x=1))] == ["both"]
        found = hr.match_limits({"os": "mac"})
        assert [rule.id for rule in found] == ["all", "any", "mac"]
        assert [override.id for override in found[1].overrides] == ["mac"]
        assert hr.limit("any").overrides == hr.limits()[1].overrides
        assert hr.delete_limit("any", override="mac").override("mac") is None
        assert hr.delete_limit("any").id == "any"
        with pytest.raises(UnknownLimit):
            hr.limit("any")

    @pytest.mark.parametrize(
        ("args", "options", "error"),
        [
            (({}, 1), {}, InvalidKeyValues),
            (({"_x": 1}, 1), {}, InvalidKeyValues),
            (({"x": float("nan")}, 1), {}, InvalidKeyValues),
            (("x", 1), {}, InvalidKeyValues),
            (({"x": 1}, -2), {}, InvalidOption),
            (({"x": 1}, 1.5), {}, InvalidOption),
            (({"x": 1}, True), {}, InvalidOption),
            (({"x": 1}, 1), {"on": "waiting"}, InvalidOption),
            (({"x": 1}, 1), {"per": 0}, InvalidOption),
            (({"x": 1}, 1), {"per": -1}, InvalidOption),
            (({"x": 1}, 1), {"per": "1m", "on": "enqueued"}, InvalidOption),
            (({"x": 1}, 1), {"name": "_x"}, InvalidOption),
            (({"x": 1}, 1), {"name": "a b"}, InvalidOption),
            (({"x": 1}, 1), {"queue": "a b"}, InvalidInput),
        ],
        ids=str,
    )
    def test_wrong_rules_are_refused(self, hr: Any, args: Any, options: Any, error: Any) -> None:
        """By the path of what is wrong; nothing is made."""
        for make in (hr.create_limit, hr.set_limit):
            with pytest.raises(error) as caught:
                make(*args, **options)
            if error is InvalidKeyValues:
                assert caught.value.path.startswith("group_by")
        assert hr.limits() == []

    def test_wrong_overrides_are_refused(self, hr: Any) -> None:
        """They have all keys of their rule."""
        hr.create_limit({"repo": ANY, "branch": ANY}, 1, name="r")
        for pattern in ({"repo": "x"}, {}, {"repo": 1, "branch": 1, "_x": 1}):
            with pytest.raises(InvalidKeyValues) as caught:
                hr.override_limit("r", pattern, 1)
            assert caught.value.path.startswith("group_by")
        with pytest.raises(UnknownLimit):
            hr.override_limit("none", {"repo": 1, "branch": 1}, 1)
        with pytest.raises(InvalidOption):
            hr.change_limit("r", -2)

    def test_a_claim_that_waits_gets_what_is_free(self, hr: Any, q: Any, connect: Connect) -> None:
        """Of another client; when an item is settled, and when a limit is raised."""
        other = connect()
        hr.create_limit({"os": "mac"}, 1, name="one")
        q.push_many([1, 2, 3], channel={"os": "mac"})
        [item] = other.queue("commits").claim()
        with soon(item.complete):
            [second] = q.claim(wait=20)
        with soon(lambda: other.change_limit("one", 2)):
            [third] = q.claim(wait=20)
        assert (second.payload, third.payload) == (2, 3)

    def test_a_rate(self, hr: Any, q: Any) -> None:
        """So many in a time; the rest waits for its time."""
        rule = hr.create_limit({"api": ANY}, 2, per="1h", name="rate")
        assert (rule.kind, rule.period_ms) == ("rate", 3_600_000)
        q.push_many([1, 2, 3], channel={"api": "x"})
        assert len(q.claim(9)) == 2
        [usage] = hr.limit_usage("rate")
        assert (usage.used, usage.limit, usage.kind, usage.is_full) == (2, 2, "rate", True)
        assert usage.room_at is not None

    def test_a_full_queue_names_the_limit(self, hr: Any, q: Any) -> None:
        """In the error of a push."""
        hr.create_limit({"os": "mac"}, 1, on="enqueued", name="few")
        q.push(1, channel={"os": "mac"})
        with pytest.raises(QueueFull) as caught:
            q.push(2, channel={"os": "mac"})
        assert (caught.value.rule, caught.value.limit) == ("few", 1)
        assert "'few'" in str(caught.value)

    def test_why_names_the_limit_and_the_holders(self, hr: Any, q: Any) -> None:
        """With its values, what is used, and who has it."""
        hr.create_limit({"os": ANY}, 1, name="one")
        hr.create_limit({"os": "mac"}, 9, name="far")
        q.push(1, channel={"os": "mac"})
        result = q.push(2, channel={"os": "mac", "x": 1})
        [item] = q.claim()
        why = q.why(result.id)
        assert [usage.rule for usage in why.limits] == ["far", "one"]
        one = why.limits[1]
        assert (one.used, one.limit, one.values) == (1, 1, KeyValues.of({"os": "mac"}))
        assert [(holder.queue, holder.id) for holder in one.holders] == [("commits", item.id)]
        assert "limit 'one'" in str(why)
        assert "'far'" not in str(why)
        assert f"item {item.id} of queue 'commits'" in str(why)
        item.complete()
        assert "limit" not in str(q.why(result.id))

    def test_a_rule_is_tried(self, hr: Any, q: Any) -> None:
        """On what waits and runs, by values; nothing is changed."""
        q.push_many([1, 2, 3], channel={"os": "mac"})
        q.push_many([4], channel={"os": "linux"})
        q.push_many([5, 6], channel={"x": 1})
        q.claim()
        linux, mac = KeyValues.of({"os": "linux"}), KeyValues.of({"os": "mac"})
        trials = hr.try_limit({"os": ANY}, 2)
        assert trials == [
            LimitTrial(values=linux, limit=2, active=0, waiting=1),
            LimitTrial(values=mac, limit=2, active=1, waiting=2),
        ]
        assert [(t.let_through, t.held_back) for t in trials] == [(1, 0), (1, 1)]
        [everything] = hr.try_limit(None, 3, queue="commits")
        assert (everything.active, everything.waiting, everything.held_back) == (1, 5, 3)
        assert hr.limits() == []
