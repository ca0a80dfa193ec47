"""Limits through the public client."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.core.limits import LimitTrial
from headrace.core.where import where
from headrace.errors import (
    HeadraceError,
    InvalidInput,
    InvalidKeyValues,
    InvalidOption,
    LimitExists,
    QueueFull,
    UnknownLimit,
)
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY, typed
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.queue_clients import soon

MAIN = {"repo": "willow", "branch": "main"}
BRANCH = {"repo": "willow", "branch": "f72"}


class LimitClientContract(Contract):
    """Limits through clients, blocking and async."""

    needed_parts = frozenset({"limits"})

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("commits")

    def test_the_build_farm_of_willow(self, hr: Any, q: Any) -> None:
        """One build per branch except main. Only main builds on Windows and Mac."""
        branches = hr.limits.create({"repo": ANY, "branch": ANY}, 1, name="branches")
        hr.limits.override("branches", MAIN, -1, name="main")
        hr.limits.create({"os": ANY}, 0, name="systems")
        hr.limits.override("systems", {"os": "linux"}, -1)
        for system in ("windows", "mac"):
            hr.limits.override("systems", {"os": system, "branch": "main"}, -1)
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

    def test_setting_a_limit_creates_or_changes_it(self, hr: Any) -> None:
        """A rule about the same pattern gets the new number, whatever its name is."""
        made = hr.limits.set({"os": ANY}, 2)
        assert hr.limits.set({"os": ANY}, 3).id == made.id
        assert hr.limits.set({"os": ANY}, 4, name=made.id).limit == 4
        hr.limits.set({"os": ANY}, 5, on="enqueued", name="other")
        with pytest.raises(LimitExists):
            hr.limits.set({"os": ANY}, 5, name="third")
        with pytest.raises(LimitExists):
            hr.limits.set({"x": 1}, 5, name="other")
        with pytest.raises(LimitExists):
            hr.limits.create({"os": ANY}, 5)
        assert sorted(rule.limit for rule in hr.limits.list()) == [4, 5]
        hr.limits.override("other", {"os": "mac"}, 1, name="mac")
        assert hr.limits.override("other", {"os": "mac"}, 2).override("mac").limit == 2
        assert hr.limits.update("other", 7, override="mac").override("mac").limit == 7
        assert hr.limits.update("other", 8).limit == 8

    def test_rules_are_found(self, hr: Any) -> None:
        """By name, by query, and by what they apply to."""
        hr.limits.create({"os": ANY}, 1, name="any")
        hr.limits.create({"os": "mac"}, 1, name="mac")
        hr.limits.create({"os": "mac", "x": 1}, 1, name="both")
        hr.limits.create(None, 9, queue="commits", name="all")
        hr.limits.override("any", {"os": "mac"}, 1, name="mac")
        hr.limits.override("any", {"os": "linux"}, 1, name="linux")
        assert [rule.id for rule in hr.limits.list()] == ["all", "any", "both", "mac"]
        assert [rule.id for rule in hr.limits.list(where(x=1))] == ["both"]
        found = hr.limits.match({"os": "mac"})
        assert [rule.id for rule in found] == ["all", "any", "mac"]
        assert [override.id for override in found[1].overrides] == ["mac"]
        assert hr.limits.get("any").overrides == hr.limits.list()[1].overrides
        assert hr.limits.delete("any", override="mac").override("mac") is None
        assert hr.limits.delete("any").id == "any"
        with pytest.raises(UnknownLimit):
            hr.limits.get("any")

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
            (({"x": 1}, 1), {"queue": "a/b"}, InvalidInput),
        ],
        ids=str,
    )
    def test_wrong_rules_are_refused(self, hr: Any, args: Any, options: Any, error: Any) -> None:
        """The error's path names the wrong part. Nothing is created."""
        for make in (hr.limits.create, hr.limits.set):
            with pytest.raises(error) as caught:
                make(*args, **options)
            if error is InvalidKeyValues:
                assert caught.value.path.startswith("group_by")
        assert hr.limits.list() == []

    def test_a_star_is_refused_as_it_may_be_meant_for_any(self, hr: Any) -> None:
        """Users of other systems write it for any value. Typed, it is text as any other."""
        hr.limits.create({"os": ANY}, 1, name="systems")
        message = r"group_by\[os\]: '\*' is only text here: use headrace.ANY"
        for method, args in (
            (hr.limits.create, ({"os": "*"}, 1)),
            (hr.limits.set, ({"os": "*"}, 1)),
            (hr.limits.simulate, ({"os": "*"}, 1)),
            (hr.limits.override, ("systems", {"os": "*"}, 1)),
        ):
            with pytest.raises(InvalidKeyValues, match=message):
                method(*args)
        star = KeyValues({"os": typed("string", "*")})
        assert hr.limits.create({"os": typed("string", "*")}, 1).pattern == star
        assert hr.limits.create(star, 1, queue="q").pattern == star

    @pytest.mark.parametrize("wrong", [None, 5, object, "a\0b", "\ud800"], ids=ascii)
    def test_a_wrong_name_of_a_rule_is_refused(self, hr: Any, wrong: Any) -> None:
        """Before it is sent: a database would say something about its tables or types."""
        hr.limits.create({"os": ANY}, 1, name="systems")
        calls = [
            lambda: hr.limits.get(wrong),
            lambda: hr.limits.update(wrong, 1),
            lambda: hr.limits.delete(wrong),
            lambda: hr.limits.override(wrong, {"os": "mac"}, 1),
            lambda: hr.limits.usage(wrong),
        ]
        for call in calls:
            with pytest.raises(InvalidOption, match="rule is"):
                call()
        if wrong is not None:
            with pytest.raises(InvalidOption, match="override is"):
                hr.limits.delete("systems", override=wrong)

    def test_a_rule_in_place_of_its_name_is_refused(self, hr: Any) -> None:
        rule = hr.limits.create({"os": ANY}, 1, name="systems")
        with pytest.raises(InvalidOption, match="give its name, which is the id of a LimitRule"):
            hr.limits.update(rule, 2)

    @pytest.mark.parametrize("number", [2**31, 10**30])
    def test_a_number_that_is_too_large_is_refused(self, hr: Any, number: int) -> None:
        hr.limits.create({"os": ANY}, 1, name="systems")
        with pytest.raises(InvalidOption, match="is not a valid limit"):
            hr.limits.update("systems", number)
        with pytest.raises(InvalidOption, match="holders is"):
            hr.limits.usage("systems", holders=number)

    def test_a_rule_is_printed_under_its_public_name(self, hr: Any) -> None:
        rule = hr.limits.create({"os": ANY}, 1, name="systems")
        assert repr(rule).startswith("LimitRule(id='systems'")

    def test_wrong_overrides_are_refused(self, hr: Any) -> None:
        """An override must have all keys of its rule."""
        hr.limits.create({"repo": ANY, "branch": ANY}, 1, name="r")
        for pattern in ({"repo": "x"}, {}, {"repo": 1, "branch": 1, "_x": 1}):
            with pytest.raises(InvalidKeyValues) as caught:
                hr.limits.override("r", pattern, 1)
            assert caught.value.path.startswith("group_by")
        with pytest.raises(UnknownLimit):
            hr.limits.override("none", {"repo": 1, "branch": 1}, 1)
        with pytest.raises(InvalidOption):
            hr.limits.update("r", -2)

    def test_a_waiting_claim_gets_a_free_slot(self, hr: Any, q: Any, connect: Connect) -> None:
        """It is woken when another client settles an item, and when a limit is raised."""
        other = connect()
        hr.limits.create({"os": "mac"}, 1, name="one")
        q.push_many([1, 2, 3], channel={"os": "mac"})
        [item] = other.queue("commits").claim()
        with soon(item.complete):
            [second] = q.claim(wait=20)
        with soon(lambda: other.limits.update("one", 2)):
            [third] = q.claim(wait=20)
        assert (second.payload, third.payload) == (2, 3)

    def test_a_rate(self, hr: Any, q: Any) -> None:
        """A rate admits that many items per period. The rest wait for the next one."""
        rule = hr.limits.create({"api": ANY}, 2, per="1h", name="rate")
        assert (rule.kind, rule.period_ms) == ("rate", 3_600_000)
        q.push_many([1, 2, 3], channel={"api": "x"})
        assert len(q.claim(9)) == 2
        [usage] = hr.limits.usage("rate")
        assert (usage.used, usage.limit, usage.kind, usage.is_full) == (2, 2, "rate", True)
        assert usage.free_at is not None

    @needs("counters")
    def test_a_rate_is_used_up_also_when_nothing_runs(self, hr: Any, q: Any) -> None:
        """Usage agrees with ``why``: completed items and released slots still count within the
        period."""
        hr.limits.create({"api": ANY}, 2, per="1h", name="rate")
        hr.limits.create({"api": ANY}, 9, per="1h", queue=q.name, name="own")
        q.push_many([1, 2, 3], channel={"api": "x", "os": "mac"})
        q.complete(q.claim(9))
        with hr.slots({"api": "y"}):
            pass
        found = {usage.values["api"].plain: usage for usage in hr.limits.usage("rate")}
        assert {name: usage.used for name, usage in found.items()} == {"x": 2, "y": 1}
        assert (found["x"].is_full, found["x"].free_at is not None) == (True, True)
        [own] = hr.limits.usage("own")
        assert (own.used, own.queue) == (2, q.name)

    @needs("counters", "locks")
    def test_no_message_shows_how_values_are_stored(self, hr: Any, q: Any) -> None:
        """Messages show key-values as ``limit set`` reads them."""
        hr.limits.create({"site": ANY}, 1, name="one")
        hr.limits.create({"host": ANY}, 1, on="enqueued", name="few")
        hr.queue(q.name).update(max_channel_items=1)
        q.push(1, channel={"site": "shop"})
        q.push(1, channel={"host": "a b"})
        held = hr.slots({"site": "shop"}).acquire()
        lock = hr.lock({"site": "shop", "n": 5})
        lock.acquire()
        failures = []
        for act in (
            lambda: hr.slots({"site": "shop"}).acquire(),
            lambda: hr.lock({"site": "shop", "n": 5}, wait=0).acquire(),
            lambda: q.push(2, channel={"site": "shop"}),
            lambda: q.push(2, channel={"host": "a b"}),
            lambda: hr.locks.force_release({"no": "lock"}),
        ):
            with pytest.raises(HeadraceError) as caught:
                act()
            failures.append(str(caught.value))
        assert [text for text in failures if "[13" in text or "Type" in text] == []
        for text, words in zip(
            failures,
            ("site=shop", "n=5 site=shop", "site=shop", 'host="a b"', "no=lock"),
            strict=True,
        ):
            assert words in text
        lock.release()
        held.release()

    def test_a_full_queue_names_the_limit(self, hr: Any, q: Any) -> None:
        """The error of a push names the limit that refused it."""
        hr.limits.create({"os": "mac"}, 1, on="enqueued", name="few")
        q.push(1, channel={"os": "mac"})
        with pytest.raises(QueueFull) as caught:
            q.push(2, channel={"os": "mac"})
        assert (caught.value.rule, caught.value.limit) == ("few", 1)
        assert "'few'" in str(caught.value)

    def test_why_names_the_limit_and_the_holders(self, hr: Any, q: Any) -> None:
        """``why`` shows the key-values, the usage and the holders of a limit."""
        hr.limits.create({"os": ANY}, 1, name="one")
        hr.limits.create({"os": "mac"}, 9, name="far")
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

    @needs("channels")
    def test_a_dry_run_of_a_rule(self, hr: Any, q: Any) -> None:
        """A dry run counts pending and running items by their values. It changes nothing."""
        q.push_many([1, 2, 3], channel={"os": "mac"})
        q.push_many([4], channel={"os": "linux"})
        q.push_many([5, 6], channel={"x": 1})
        q.claim()
        linux, mac = KeyValues.of({"os": "linux"}), KeyValues.of({"os": "mac"})
        trials = hr.limits.simulate({"os": ANY}, 2)
        assert trials == [
            LimitTrial(values=linux, limit=2, active=0, waiting=1),
            LimitTrial(values=mac, limit=2, active=1, waiting=2),
        ]
        assert [(t.let_through, t.held_back) for t in trials] == [(1, 0), (1, 1)]
        [everything] = hr.limits.simulate(None, 3, queue="commits")
        assert (everything.active, everything.waiting, everything.held_back) == (1, 5, 3)
        assert hr.limits.list() == []
