"""Limits on items that are out: how many at once, and how many in some time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.contract.items import Deleted
from headrace.contract.limits import Holder, RuleRow
from headrace.core.where import where
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.model.typed import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect
from headrace.testing.contract.limit_rules import override, pattern, rule
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads, said

ALL = Query().form


def form(**pairs: Any) -> str:
    return KeyValues.of(pairs).form


MAC, LINUX = form(os="mac"), form(os="linux")


def fill(q: Queue, channel: str | None, *numbers: int) -> None:
    q.push(*(doc(number, key_values=channel) for number in numbers))


class LimitClaimContract(QueueContract):
    """What a claim gets where rules apply, and how slots come back."""

    @pytest.fixture(params=["fair", "line", "plain"])
    def how(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        """The three ways to claim."""
        order = request.param
        return {} if order == "plain" else {"select": ALL, "order": order}

    def test_no_more_than_fits(self, q: Queue, desk: Desk, how: Any) -> None:
        """A claim passes over what has no room and takes the rest; a settled item gives room."""
        desk.create_limits([rule("two", 2, os="mac")])
        fill(q, MAC, 1, 2, 3, 4)
        fill(q, LINUX, 5, 6)
        fill(q, None, 7)
        items = q.claim(9, **how)
        given = [1, 2, 5, 6] if how else [1, 2, 5, 6, 7]
        assert sorted(payloads(items)) == given or sorted(payloads(items)) == [*given, 7]
        assert q.claim(9, **how) == []
        q.settle(items[0], "complete")
        assert payloads(q.claim(9, **how)) == [3]

    @pytest.mark.parametrize(
        "end",
        ["complete", "reschedule", "reject", "kill", "drop", "release"],
    )
    @pytest.mark.parametrize("keep", ["none", "all"])
    def test_every_outcome_gives_the_slot_back(
        self, q: Queue, desk: Desk, end: str, keep: str
    ) -> None:
        """Once, whatever becomes of the item."""
        q.create(keep=keep, dead_threshold=2, reject_delay=0, reschedule_delay=0)
        desk.create_limits([rule("one", 1, os=ANY)])
        fill(q, MAC, 1, 2)
        for _ in range(3):
            [item] = q.claim(9)
            assert q.claim(9) == []
            assert q.settle(item, end).state != "lost"
            assert q.settle(item, end).state == "lost"
            if not (q.in_state(0) or q.in_state(1)):
                fill(q, MAC, 3)
        assert used(desk, "one") == {}

    def test_several_at_once_give_all_back(self, q: Queue, desk: Desk) -> None:
        """Completed in one call, of several claims and channels."""
        desk.create_limits([rule("r", 3, os=ANY)])
        fill(q, MAC, 1, 2, 3, 4, 5)
        fill(q, LINUX, 6, 7, 8)
        items = [*q.claim(4), *q.claim(4)]
        assert used(desk, "r") == {MAC: 3, LINUX: 3}
        desk.settle("q", [said(item, "complete") for item in items])
        assert used(desk, "r") == {}
        assert payloads(q.claim(9)) == [4, 5]

    def test_a_lease_that_is_over_gives_its_slot(
        self, q: Queue, desk: Desk, clock: FakeClock
    ) -> None:
        """Whoever ends it: the next claim, which may hand out something else then."""
        q.create(max_crashes=1)
        desk.create_limits([rule("one", 1, os="mac")])
        fill(q, MAC, 1, 2)
        [item] = q.claim(9, lease_ms=1000)
        clock.advance(1.001)
        assert payloads(q.claim(9, lease_ms=1000)) == [2]
        assert q.settle(item, "complete").state == "lost"
        clock.advance(1.001)
        desk.expire_leases("q", 10)
        assert used(desk, "one") == {}

    def test_deleted_channels_and_queues_give_slots(self, q: Queue, desk: Desk) -> None:
        """To whoever waits for them in another queue."""
        other = Queue(desk, "other")
        desk.create_limits([rule("two", 2, os="mac")])
        fill(q, MAC, 1)
        fill(q, form(os="mac", x=1), 2)
        fill(other, MAC, 3, 4, 5)
        assert len(q.claim(9)) == 2
        assert other.claim(9) == []
        assert desk.delete_channels("q", where(x=1).form, 9) == Deleted(1, 1)
        assert payloads(other.claim(9)) == [3]
        desk.drop_queue("q", False)
        assert payloads(other.claim(9)) == [4]
        assert used(desk, "two") == {MAC: 2}

    def test_a_queue_dropped_with_its_data(self, q: Queue, desk: Desk) -> None:
        """What was out waits again, and holds no slot."""
        desk.create_limits([rule("one", 1, os="mac")])
        fill(q, MAC, 1)
        q.claim(9)
        desk.drop_queue("q", True)
        other = Queue(desk, "other")
        fill(other, MAC, 2)
        [item] = other.claim(9)
        q.create()
        assert q.claim(9) == []
        other.settle(item, "complete")
        assert payloads(q.claim(9)) == [1]

    def test_a_rule_of_one_queue(self, q: Queue, desk: Desk) -> None:
        """Counts and limits nothing elsewhere; one about all counts all together."""
        other = Queue(desk, "other")
        fill(q, MAC, 1, 2, 3)
        fill(other, MAC, 4, 5, 6)
        desk.create_limits([RuleRow(id="mine", key_values=pattern(os="mac"), limit=1, queue="q")])
        assert (len(q.claim(9)), len(other.claim(1))) == (1, 1)
        desk.create_limits([rule("all", 3, os="mac")])
        assert (q.claim(9), payloads(other.claim(9))) == ([], [5])

    def test_any_counts_each_value_apart(self, q: Queue, desk: Desk, how: Any) -> None:
        """And types are told apart."""
        desk.create_limits([rule("each", 1, n=ANY)])
        channels = [form(n=1), form(n="1"), form(n=2), form(n=1, m=1), form(m=1)]
        for number, channel in enumerate(channels):
            fill(q, channel, number)
        assert sorted(payloads(q.claim(9, **how))) == [0, 1, 2, 4]

    def test_overrides_stand_in_place_of_their_rule(self, q: Queue, desk: Desk) -> None:
        """All that apply; what they let through still counts for the others."""
        desk.create_limits([rule("repo", 2, repo=ANY)])
        desk.add_override("repo", override("vip", -1, repo=ANY, vip="yes"))
        desk.add_override("repo", override("main", 1, repo="a", branch="main"))
        vip, main, both = form(repo="a", vip="yes"), form(repo="a", branch="main"), None
        both = form(repo="a", vip="yes", branch="main")
        fill(q, vip, 1, 2, 3)
        fill(q, both, 4, 5)
        fill(q, main, 6)
        fill(q, form(repo="a"), 7)
        fill(q, form(repo="b"), 8, 9, 10)
        assert sorted(payloads(q.claim(99))) == [1, 2, 3, 4, 8, 9]
        assert used(desk, "repo") == {
            form(repo="a", branch="main"): 1,
            form(repo="b"): 2,
        }

    def test_all_rules_must_have_room(self, q: Queue, desk: Desk, how: Any) -> None:
        """Zero lets nothing through, -1 is no limit."""
        desk.create_limits(
            [
                rule("a", 3, os=ANY),
                rule("b", 2, tier="low"),
                rule("c", 0, x=ANY),
                rule("d", -1, y=1),
            ]
        )
        fill(q, form(os="mac", tier="low"), 1, 2, 3)
        fill(q, form(os="mac", tier="high", y=1), 4, 5)
        fill(q, form(x=1), 6)
        fill(q, form(y=1), 7, 8)
        found = sorted(payloads(q.claim(9, **how)))
        assert found in ([1, 2, 4, 7, 8], [1, 2, 4, 7, 8])

    def test_a_rule_about_everything(self, q: Queue, desk: Desk) -> None:
        """The empty pattern: items in no channel count too, in a queue that has none as well."""
        desk.create_limits([RuleRow(id="all", key_values=pattern(), limit=2, queue="q")])
        fill(q, None, 1, 2, 3)
        items = [*q.claim(1), *q.claim(9)]
        assert payloads(items) == [1, 2]
        fill(q, MAC, 4)
        assert q.claim(9) == []
        q.settle(items[0], "complete")
        assert payloads(q.claim(9, select=ALL)) == [4]
        q.settle(items[1], "complete")
        assert payloads(q.claim(9)) == [3]

    def test_turns_stay_fair(self, q: Queue, desk: Desk) -> None:
        """A channel that has no room does not lose its turn, nor keep that of others."""
        desk.create_limits([rule("one", 1, os="mac")])
        for channel, first in ((MAC, 1), (LINUX, 4), (form(os="bsd"), 7)):
            fill(q, channel, first, first + 1, first + 2)
        how = {"select": ALL, "quantum": 1}
        items = q.claim(2, **how)
        assert payloads(items) == [1, 4]
        assert payloads(q.claim(2, **how)) == [7, 5]
        q.settle(items[0], "complete")
        assert payloads(q.claim(2, **how)) == [2, 8]

    def test_a_new_rule_counts_what_is_out(self, q: Queue, desk: Desk) -> None:
        """And gives it back; a limit below the total only holds back what is new."""
        fill(q, MAC, 1, 2, 3, 4, 5)
        items = q.claim(3)
        desk.create_limits([rule("r", 2, os="mac")])
        assert used(desk, "r") == {MAC: 3}
        assert q.claim(1) == []
        q.settle(items[0], "complete")
        assert q.claim(1) == []
        q.settle(items[1], "complete")
        assert payloads(q.claim(9)) == [4]

    def test_a_client_that_knew_the_queue_before(
        self, connect: Connect, q: Queue, desk: Desk
    ) -> None:
        """Keeps to a rule that somebody else has made meanwhile, whatever version it asks for."""
        fill(q, None, 1, 2, 3)
        fill(q, MAC, 4, 5, 6)
        q.claim(1)
        other = Desk(connect())
        other.create_limits(
            [RuleRow(id="r", key_values=pattern(), limit=2, queue="q"), rule("off", 0, os=ANY)]
        )
        version = other.queue_info("q").version
        assert q.take(9, version=version - 1).state == "stale"
        assert payloads(q.claim(9, version=version)) == [2]
        q.settle(q.in_state(2)[0], "complete")
        assert payloads(q.claim(9, version=version)) == [3]

    def test_numbers_change_at_once(self, q: Queue, desk: Desk) -> None:
        """Of rules and overrides; so does what is added and removed."""
        fill(q, MAC, *range(9))
        desk.create_limits([rule("r", 1, os=ANY)])
        found = [len(q.claim(9))]
        desk.change_limit("r", None, 3)
        found.append(len(q.claim(9)))
        desk.add_override("r", override("o", 4, os="mac"))
        found.append(len(q.claim(9)))
        desk.change_limit("r", "o", 0)
        found.append(len(q.claim(9)))
        desk.delete_override("r", "o")
        found.append(len(q.claim(9)))
        desk.change_limit("r", None, -1)
        found.append(len(q.claim(1)))
        desk.change_limit("r", None, 6)
        found.append(len(q.claim(9)))
        desk.delete_limit("r")
        found.append(len(q.claim(9)))
        assert found == [1, 2, 1, 0, 0, 1, 1, 3]

    def test_slots_outlive_a_rule_that_is_made_again(self, q: Queue, desk: Desk) -> None:
        """What is settled while there is no rule is not given back twice."""
        desk.create_limits([rule("r", 2, os="mac")])
        fill(q, MAC, 1, 2, 3, 4)
        one, two = q.claim(9)
        desk.delete_limit("r")
        q.settle(one, "complete")
        q.claim(1)
        desk.create_limits([rule("r", 2, os="mac")])
        assert (used(desk, "r"), q.claim(9)) == ({MAC: 2}, [])
        q.settle(two, "complete")
        assert payloads(q.claim(9)) == [4]

    def test_a_rate(self, q: Queue, desk: Desk, clock: FakeClock) -> None:
        """So many within a period, whether they have ended or not; it says when there is room."""
        desk.create_limits([RuleRow(id="r", key_values=pattern(os=ANY), limit=3, period_ms=10_000)])
        fill(q, MAC, 1, 2, 3, 4, 5)
        fill(q, LINUX, 6)
        start = clock()
        items = q.claim(2)
        for item in items:
            q.settle(item, "complete")
        clock.advance(5)
        assert payloads(q.claim(9)) == [3, 6]
        held = q.take(9)
        assert (held.items, held.state) == ((), "empty")
        assert held.next_due is not None
        assert start + 10_000 <= held.next_due <= start + 10_101
        clock.advance((held.next_due - clock() - 1) / 1000)
        assert q.claim(9) == []
        clock.advance(0.001)
        assert payloads(q.claim(9)) == [4, 5]

    @pytest.mark.parametrize(
        ("channel", "order"), [(None, None), (MAC, None), (MAC, "fair"), (MAC, "line")]
    )
    def test_a_claim_that_a_rate_cuts_short(
        self, q: Queue, desk: Desk, clock: FakeClock, channel: str | None, order: Any
    ) -> None:
        """It says when there is room for the rest, not only the claim after it that gets nothing."""
        desk.create_limits([RuleRow(id="r", key_values=pattern(), limit=2, period_ms=10_000)])
        fill(q, channel, 1, 2, 3)
        cut = q.take(9, **({"select": ALL, "order": order} if order else {}))
        assert payloads(cut.items) == [1, 2]
        assert cut.next_due is not None
        assert clock() + 10_000 <= cut.next_due <= clock() + 10_101

    def test_a_strict_channel_under_a_limit(self, q: Queue, desk: Desk) -> None:
        """One at a time, and only while there is room."""
        q.create(serial=True)
        desk.create_limits([rule("one", 1, os=ANY)])
        mac = form(os="mac", n=2)
        fill(q, MAC, 1, 2)
        fill(q, mac, 3)
        [item] = q.claim(9)
        assert q.claim(9, select=ALL) == []
        q.settle(item, "complete")
        assert payloads(q.claim(9, select=ALL)) == [2]

    def test_items_that_come_back_have_no_slot(self, q: Queue, desk: Desk) -> None:
        """A released item is the next one again, if there is room."""
        desk.create_limits([rule("one", 1, os="mac")])
        fill(q, MAC, 1, 2)
        [item] = q.claim(9)
        q.settle(item, "release")
        assert payloads(q.claim(9)) == [1]

    @pytest.mark.parametrize(
        "change",
        [
            lambda q, item: q.settle(item, "complete"),
            lambda q, item: q.settle(item, "reject", delay_ms=60_000),
            lambda q, item: q.desk.change_limit("one", None, 2),
            lambda q, item: q.desk.delete_limit("one"),
            lambda q, item: q.desk.add_override("one", override("o", -1, os="mac")),
            lambda q, item: q.desk.drop_queue("q", False),
            lambda q, item: q.desk.delete_channels("q", ALL, 9),
        ],
        ids=["settled", "rejected", "raised", "deleted", "overridden", "dropped", "channels"],
    )
    def test_who_waits_is_woken(
        self, q: Queue, desk: Desk, change: Callable[[Queue, Any], Any]
    ) -> None:
        """When there is room, in whatever queue it was taken."""
        other = Queue(desk, "other")
        desk.create_limits([rule("one", 1, os="mac")])
        fill(q, MAC, 1)
        fill(other, MAC, 2)
        [item] = q.claim(9)
        assert other.claim(9) == []
        waiter = desk.store.waiter("queue/other")
        try:
            change(q, item)
            assert desk.is_woken(waiter)
        finally:
            waiter.close()
        assert payloads(other.claim(9)) == [2]

    def test_a_claim_in_a_transaction(self, hr: Any, q: Queue, desk: Desk) -> None:
        """Takes its slots with it, and gives them back if it fails."""
        desk.create_limits([rule("two", 2, os="mac")])
        fill(q, MAC, 1, 2, 3)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            assert len(Queue(Desk(tx)).claim(9)) == 2
            raise ZeroDivisionError
        with hr.transaction() as tx:
            mine = Queue(Desk(tx))
            items = mine.claim(9)
            mine.settle(items[0], "complete")
            assert payloads(mine.claim(9)) == [3]
        assert used(desk, "two") == {MAC: 2}

    def test_what_holds_for_an_item(self, q: Queue, desk: Desk, clock: FakeClock) -> None:
        """Each limit with its total, and who has the slots."""
        desk.create_limits(
            [
                rule("one", 1, os=ANY),
                rule("off", 0, x=1),
                rule("far", 9, os="linux"),
                RuleRow(id="rate", key_values=pattern(os="mac"), limit=1, period_ms=1000),
            ]
        )
        both = form(os="mac", x=1)
        fill(q, MAC, 1)
        [waiting] = q.push(doc(2, key_values=both)).ids
        [item] = q.claim(1, worker="me")
        found = {usage.rule: usage for usage in desk.item_limits("q", waiting, 5)}
        assert set(found) == {"one", "off", "rate"}
        one, off, rate = found["one"], found["off"], found["rate"]
        assert (one.used, one.limit, one.is_full, one.key_values) == (1, 1, True, MAC)
        assert one.holders == (
            Holder(queue="q", item=item.id, key_values=MAC, worker="me", claimed_at=clock()),
        )
        assert (off.used, off.limit, off.is_full, off.holders) == (0, 0, True, ())
        assert (rate.used, rate.measure, rate.holders) == (1, "rate/1000", ())
        assert rate.room_at is not None
        assert rate.room_at > clock()

    def test_tending_forgets_totals_and_nothing_else(
        self, q: Queue, desk: Desk, clock: FakeClock
    ) -> None:
        """Those that nothing counts in."""
        desk.create_limits(
            [
                rule("r", 1, n=ANY),
                RuleRow(id="s", key_values=pattern(n=ANY), limit=2, period_ms=1000),
            ]
        )
        for number in range(5):
            fill(q, form(n=number), number, number)
        items = q.claim(9)
        for item in items[:3]:
            q.settle(item, "complete")
        desk.tend_queue("q", 100)
        assert (len(items), len(q.claim(9)), len(q.claim(9))) == (5, 3, 0)
        clock.advance(5)
        desk.tend_queue("q", 100)
        assert sum(used(desk, "r").values()) == 5


def used(desk: Desk, id: str) -> dict[str, int]:
    """The totals that a rule looks at, by their values."""
    return {usage.key_values: usage.used for usage in desk.limit_usage(id, 0)}
