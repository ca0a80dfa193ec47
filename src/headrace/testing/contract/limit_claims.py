"""Limits on items in flight: how many in parallel, and how many per period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.contract.items import Deleted
from headrace.contract.limits import Holder, RuleRow
from headrace.core.where import where
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.query.typed_values import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, needs
from headrace.testing.contract.limit_rules import override, pattern, rule
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    outcome_of,
    payloads,
)

ALL = Query().form


def form(**pairs: Any) -> str:
    return KeyValues.of(pairs).form


MAC, LINUX = form(os="mac"), form(os="linux")


def fill(q: Queue, channel: str | None, *numbers: int) -> None:
    q.push(*(doc(number, key_values=channel) for number in numbers))


class LimitClaimContract(QueueContract):
    """Which items a claim gets under limits, and how slots are released."""

    needed_parts = frozenset({"limits"})

    @pytest.fixture(params=["fair", "line", "plain"])
    def how(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        """The three ways to claim."""
        order = request.param
        return {} if order == "plain" else {"select": ALL, "order": order}

    def test_a_claim_skips_items_without_a_free_slot(
        self, q: Queue, ops: StoreOps, how: Any
    ) -> None:
        """A claim skips items whose counter is at its limit and returns the others, in order. A
        claim by channels only returns items in a channel. A settled item frees exactly one slot."""
        ops.limits.create([rule("two", 2, os="mac")])
        fill(q, MAC, 1, 2, 3, 4)
        fill(q, LINUX, 5, 6)
        fill(q, None, 7)
        items = q.claim(9, **how)
        assert payloads(items) == ([1, 2, 5, 6] if how else [1, 2, 5, 6, 7])
        assert used(ops, "two") == {MAC: 2}
        assert q.claim(9, **how) == []
        q.settle(items[0], "complete")
        assert payloads(q.claim(9, **how)) == [3]
        assert used(ops, "two") == {MAC: 2}
        q.settle(items[2], "complete")
        assert q.claim(9, **how) == []

    @pytest.mark.parametrize(
        "end",
        ["complete", "reschedule", "reject", "kill", "drop", "release"],
    )
    @pytest.mark.parametrize("keep", ["none", "all"])
    def test_every_outcome_releases_the_slot_once(
        self, q: Queue, ops: StoreOps, end: str, keep: str
    ) -> None:
        """Each outcome releases the item's slot exactly once."""
        q.create(keep=keep, max_attempts=2, reject_delay=0, reschedule_delay=0)
        ops.limits.create([rule("one", 1, os=ANY)])
        fill(q, MAC, 1, 2)
        for _ in range(3):
            [item] = q.claim(9)
            assert q.claim(9) == []
            assert q.settle(item, end).state != "lost"
            assert q.settle(item, end).state == "lost"
            if not (q.in_state(0) or q.in_state(1)):
                fill(q, MAC, 3)
        assert used(ops, "one") == {}

    def test_one_call_releases_the_slots_of_all_its_items(self, q: Queue, ops: StoreOps) -> None:
        """One call completes items of several claims and channels."""
        ops.limits.create([rule("r", 3, os=ANY)])
        fill(q, MAC, 1, 2, 3, 4, 5)
        fill(q, LINUX, 6, 7, 8)
        items = [*q.claim(4), *q.claim(4)]
        assert used(ops, "r") == {MAC: 3, LINUX: 3}
        ops.queues.settle("q", [outcome_of(item, "complete") for item in items])
        assert used(ops, "r") == {}
        assert payloads(q.claim(9)) == [4, 5]

    def test_an_ended_lease_releases_its_slot(
        self, q: Queue, ops: StoreOps, clock: FakeClock
    ) -> None:
        """The next claim may end the lease, and then return a different item."""
        q.create(max_crashes=1)
        ops.limits.create([rule("one", 1, os="mac")])
        fill(q, MAC, 1, 2)
        [item] = q.claim(9, lease_ms=1000)
        clock.advance(1.001)
        assert payloads(q.claim(9, lease_ms=1000)) == [2]
        assert q.settle(item, "complete").state == "lost"
        clock.advance(1.001)
        ops.queues.expire_leases("q", 10)
        assert used(ops, "one") == {}

    @needs("channels")
    def test_deleted_channels_and_queues_release_their_slots(self, q: Queue, ops: StoreOps) -> None:
        """The free slots go to claims on another queue."""
        other = Queue(ops, "other")
        ops.limits.create([rule("two", 2, os="mac")])
        fill(q, MAC, 1)
        fill(q, form(os="mac", x=1), 2)
        fill(other, MAC, 3, 4, 5)
        assert len(q.claim(9)) == 2
        assert other.claim(9) == []
        assert ops.channels.delete("q", where(x=1).form, 9) == Deleted(1, 1)
        assert payloads(other.claim(9)) == [3]
        ops.queues.drop("q", False)
        assert payloads(other.claim(9)) == [4]
        assert used(ops, "two") == {MAC: 2}

    def test_a_queue_dropped_with_kept_data_holds_no_slot(self, q: Queue, ops: StoreOps) -> None:
        """Items that were in flight are pending again, and hold no slot."""
        ops.limits.create([rule("one", 1, os="mac")])
        fill(q, MAC, 1)
        q.claim(9)
        ops.queues.drop("q", True)
        other = Queue(ops, "other")
        fill(other, MAC, 2)
        [item] = other.claim(9)
        q.create()
        assert q.claim(9) == []
        other.settle(item, "complete")
        assert payloads(q.claim(9)) == [1]

    def test_a_rule_of_one_queue(self, q: Queue, ops: StoreOps) -> None:
        """It neither counts nor limits items of other queues. A rule about all queues counts them
        together."""
        other = Queue(ops, "other")
        fill(q, MAC, 1, 2, 3)
        fill(other, MAC, 4, 5, 6)
        ops.limits.create([RuleRow(id="mine", key_values=pattern(os="mac"), limit=1, queue="q")])
        assert (len(q.claim(9)), len(other.claim(1))) == (1, 1)
        ops.limits.create([rule("all", 3, os="mac")])
        assert (q.claim(9), payloads(other.claim(9))) == ([], [5])

    def test_any_counts_each_value_separately(self, q: Queue, ops: StoreOps, how: Any) -> None:
        """Values of different types are different values."""
        ops.limits.create([rule("each", 1, n=ANY)])
        channels = [form(n=1), form(n="1"), form(n=2), form(n=1, m=1), form(m=1)]
        for number, channel in enumerate(channels):
            fill(q, channel, number)
        assert sorted(payloads(q.claim(9, **how))) == [0, 1, 2, 4]

    def test_overrides_replace_their_rule(self, q: Queue, ops: StoreOps) -> None:
        """All overrides that match apply. An item that one override admits still counts for the
        others."""
        ops.limits.create([rule("repo", 2, repo=ANY)])
        ops.limits.add_override("repo", override("vip", -1, repo=ANY, vip="yes"))
        ops.limits.add_override("repo", override("main", 1, repo="a", branch="main"))
        vip, main, both = form(repo="a", vip="yes"), form(repo="a", branch="main"), None
        both = form(repo="a", vip="yes", branch="main")
        fill(q, vip, 1, 2, 3)
        fill(q, both, 4, 5)
        fill(q, main, 6)
        fill(q, form(repo="a"), 7)
        fill(q, form(repo="b"), 8, 9, 10)
        assert sorted(payloads(q.claim(99))) == [1, 2, 3, 4, 8, 9]
        assert used(ops, "repo") == {
            form(repo="a", branch="main"): 1,
            form(repo="b"): 2,
        }

    def test_all_rules_must_have_a_free_slot(self, q: Queue, ops: StoreOps, how: Any) -> None:
        """A limit of 0 admits nothing. A limit of -1 means unlimited."""
        ops.limits.create(
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

    def test_an_empty_pattern_matches_every_item(self, q: Queue, ops: StoreOps) -> None:
        """It also counts items in no channel, including those of queues without channels."""
        ops.limits.create([RuleRow(id="all", key_values=pattern(), limit=2, queue="q")])
        fill(q, None, 1, 2, 3)
        items = [*q.claim(1), *q.claim(9)]
        assert payloads(items) == [1, 2]
        fill(q, MAC, 4)
        assert q.claim(9) == []
        q.settle(items[0], "complete")
        assert payloads(q.claim(9, select=ALL)) == [4]
        q.settle(items[1], "complete")
        assert payloads(q.claim(9)) == [3]

    def test_turns_stay_fair(self, q: Queue, ops: StoreOps) -> None:
        """A channel at its limit neither loses its turn nor delays the turns of others."""
        ops.limits.create([rule("one", 1, os="mac")])
        for channel, first in ((MAC, 1), (LINUX, 4), (form(os="bsd"), 7)):
            fill(q, channel, first, first + 1, first + 2)
        how = {"select": ALL, "quantum": 1}
        items = q.claim(2, **how)
        assert payloads(items) == [1, 4]
        assert payloads(q.claim(2, **how)) == [7, 5]
        q.settle(items[0], "complete")
        assert payloads(q.claim(2, **how)) == [2, 8]

    def test_a_new_rule_counts_items_in_flight(self, q: Queue, ops: StoreOps) -> None:
        """Their outcomes release the slots. A limit below the counter only stops further items."""
        fill(q, MAC, 1, 2, 3, 4, 5)
        items = q.claim(3)
        ops.limits.create([rule("r", 2, os="mac")])
        assert used(ops, "r") == {MAC: 3}
        assert q.claim(1) == []
        q.settle(items[0], "complete")
        assert q.claim(1) == []
        q.settle(items[1], "complete")
        assert payloads(q.claim(9)) == [4]

    def test_a_client_follows_rules_of_other_clients(
        self, connect: Connect, q: Queue, ops: StoreOps
    ) -> None:
        """A client that cached the queue obeys a rule created meanwhile, whichever version it
        expects."""
        fill(q, None, 1, 2, 3)
        fill(q, MAC, 4, 5, 6)
        q.claim(1)
        other = StoreOps(connect())
        other.limits.create(
            [RuleRow(id="r", key_values=pattern(), limit=2, queue="q"), rule("off", 0, os=ANY)]
        )
        version = other.queues.info("q").version
        assert q.claim_response(9, version=version - 1).state == "stale"
        assert payloads(q.claim(9, version=version)) == [2]
        q.settle(q.in_state(2)[0], "complete")
        assert payloads(q.claim(9, version=version)) == [3]

    def test_changed_limits_apply_immediately(self, q: Queue, ops: StoreOps) -> None:
        """This holds for limits of rules and overrides, and for rules and overrides that are added
        or removed."""
        fill(q, MAC, *range(9))
        ops.limits.create([rule("r", 1, os=ANY)])
        found = [len(q.claim(9))]
        ops.limits.change("r", None, 3)
        found.append(len(q.claim(9)))
        ops.limits.add_override("r", override("o", 4, os="mac"))
        found.append(len(q.claim(9)))
        ops.limits.change("r", "o", 0)
        found.append(len(q.claim(9)))
        ops.limits.delete_override("r", "o")
        found.append(len(q.claim(9)))
        ops.limits.change("r", None, -1)
        found.append(len(q.claim(1)))
        ops.limits.change("r", None, 6)
        found.append(len(q.claim(9)))
        ops.limits.delete("r")
        found.append(len(q.claim(9)))
        assert found == [1, 2, 1, 0, 0, 1, 1, 3]

    def test_a_rule_created_again_counts_exactly(self, q: Queue, ops: StoreOps) -> None:
        """Slots of items that were settled while there was no rule are not released twice."""
        ops.limits.create([rule("r", 2, os="mac")])
        fill(q, MAC, 1, 2, 3, 4)
        one, two = q.claim(9)
        ops.limits.delete("r")
        q.settle(one, "complete")
        q.claim(1)
        ops.limits.create([rule("r", 2, os="mac")])
        assert (used(ops, "r"), q.claim(9)) == ({MAC: 2}, [])
        q.settle(two, "complete")
        assert payloads(q.claim(9)) == [4]

    def test_a_rate(self, q: Queue, ops: StoreOps, clock: FakeClock) -> None:
        """At most that many items start per period, whether or not they have ended. The answer says
        when the next may start."""
        ops.limits.create([RuleRow(id="r", key_values=pattern(os=ANY), limit=3, period_ms=10_000)])
        fill(q, MAC, 1, 2, 3, 4, 5)
        fill(q, LINUX, 6)
        start = clock()
        items = q.claim(2)
        for item in items:
            q.settle(item, "complete")
        clock.advance(5)
        assert payloads(q.claim(9)) == [3, 6]
        held = q.claim_response(9)
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
        self, q: Queue, ops: StoreOps, clock: FakeClock, channel: str | None, order: Any
    ) -> None:
        """The claim that the rate cuts short already says when the rest may start, not only the
        next, empty one."""
        ops.limits.create([RuleRow(id="r", key_values=pattern(), limit=2, period_ms=10_000)])
        fill(q, channel, 1, 2, 3)
        cut = q.claim_response(9, **({"select": ALL, "order": order} if order else {}))
        assert payloads(cut.items) == [1, 2]
        assert cut.next_due is not None
        assert clock() + 10_000 <= cut.next_due <= clock() + 10_101

    def test_a_strict_channel_under_a_limit(self, q: Queue, ops: StoreOps) -> None:
        """It has one item in flight at a time, and only if the limit has a free slot."""
        q.create(serial=True)
        ops.limits.create([rule("one", 1, os=ANY)])
        mac = form(os="mac", n=2)
        fill(q, MAC, 1, 2)
        fill(q, mac, 3)
        [item] = q.claim(9)
        assert q.claim(9, select=ALL) == []
        q.settle(item, "complete")
        assert payloads(q.claim(9, select=ALL)) == [2]

    def test_a_released_item_holds_no_slot(self, q: Queue, ops: StoreOps) -> None:
        """A released item is the next one again, if there is a free slot."""
        ops.limits.create([rule("one", 1, os="mac")])
        fill(q, MAC, 1, 2)
        [item] = q.claim(9)
        q.settle(item, "release")
        assert payloads(q.claim(9)) == [1]

    @needs("channels")
    @pytest.mark.parametrize(
        "change",
        [
            lambda q, item: q.settle(item, "complete"),
            lambda q, item: q.settle(item, "reject", delay_ms=60_000),
            lambda q, item: q.ops.limits.change("one", None, 2),
            lambda q, item: q.ops.limits.delete("one"),
            lambda q, item: q.ops.limits.add_override("one", override("o", -1, os="mac")),
            lambda q, item: q.ops.queues.drop("q", False),
            lambda q, item: q.ops.channels.delete("q", ALL, 9),
        ],
        ids=["settled", "rejected", "raised", "deleted", "overridden", "dropped", "channels"],
    )
    def test_a_waiter_is_woken_when_a_slot_is_free(
        self, q: Queue, ops: StoreOps, change: Callable[[Queue, Any], Any]
    ) -> None:
        """The slot may have been used in another queue."""
        other = Queue(ops, "other")
        ops.limits.create([rule("one", 1, os="mac")])
        fill(q, MAC, 1)
        fill(other, MAC, 2)
        [item] = q.claim(9)
        assert other.claim(9) == []
        waiter = ops.store.waiter("queue/other")
        try:
            change(q, item)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
        assert payloads(other.claim(9)) == [2]

    @needs("transactions")
    def test_a_claim_in_a_transaction(self, hr: Any, q: Queue, ops: StoreOps) -> None:
        """Its slots are used when the transaction commits. A rollback releases them."""
        ops.limits.create([rule("two", 2, os="mac")])
        fill(q, MAC, 1, 2, 3)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            assert len(Queue(StoreOps(tx)).claim(9)) == 2
            raise ZeroDivisionError
        with hr.transaction() as tx:
            mine = Queue(StoreOps(tx))
            items = mine.claim(9)
            mine.settle(items[0], "complete")
            assert payloads(mine.claim(9)) == [3]
        assert used(ops, "two") == {MAC: 2}

    def test_the_limits_of_an_item(self, q: Queue, ops: StoreOps, clock: FakeClock) -> None:
        """Each limit is listed with its counter and the holders of its slots."""
        ops.limits.create(
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
        found = {usage.rule: usage for usage in ops.limits.of_item("q", waiting, 5)}
        assert set(found) == {"one", "off", "rate"}
        one, off, rate = found["one"], found["off"], found["rate"]
        assert (one.used, one.limit, one.is_full, one.key_values) == (1, 1, True, MAC)
        assert one.holders == (
            Holder(queue="q", item=item.id, key_values=MAC, worker="me", claimed_at=clock()),
        )
        assert (off.used, off.limit, off.is_full, off.holders) == (0, 0, True, ())
        assert (rate.used, rate.measure, rate.holders) == (1, "rate/1000", ())
        assert rate.free_at is not None
        assert rate.free_at > clock()

    def test_maintenance_deletes_unused_counters_only(
        self, q: Queue, ops: StoreOps, clock: FakeClock
    ) -> None:
        """Maintenance deletes counters in which nothing counts."""
        ops.limits.create(
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
        ops.queues.maintain("q", 100)
        assert (len(items), len(q.claim(9)), len(q.claim(9))) == (5, 3, 0)
        clock.advance(5)
        ops.queues.maintain("q", 100)
        assert sum(used(ops, "r").values()) == 5


def used(ops: StoreOps, id: str) -> dict[str, int]:
    """The counters of a rule, by their key-values."""
    return {usage.key_values: usage.used for usage in ops.limits.usage(id, 0)}
