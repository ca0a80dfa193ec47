"""Limits that block many channels, and the order in which they continue.

A driver may park channels that wait for a free slot. Callers must not notice it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.where import where
from headrace.model.query.queries import Query
from headrace.model.query.typed_values import ANY
from headrace.testing.contract.base import needs
from headrace.testing.contract.limit_claims import form
from headrace.testing.contract.limit_rules import override, rule
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    outcome_of,
    payloads,
)

ALL = Query().form
# More channels than any driver leaves unparked.
MANY = 120


def settle_one(q: Queue) -> None:
    """Complete one item in flight."""
    assert q.settle(q.in_state(2)[0], "complete").state == "completed"


class ParkedChannelContract(QueueContract):
    """Fair claims while a limit blocks most channels."""

    needed_parts = frozenset({"limits"})

    @pytest.fixture
    def blocked(self, q: Queue, ops: StoreOps) -> Queue:
        """Many channels, with as many items in flight as the limit allows: two."""
        ops.limits.create([rule("two", 2, os="mac")])
        q.push(*(doc(n, key_values=form(os="mac", n=n, odd=n % 2)) for n in range(MANY)))
        assert payloads([*q.claim(1, select=ALL), *q.claim(1, select=ALL)]) == [0, 1]
        for _ in range(2):
            assert q.claim(9, select=ALL) == []
        return q

    @needs("channels")
    @pytest.mark.parametrize("registered", [True, False])
    def test_blocked_channels_continue_in_turn(
        self, blocked: Queue, ops: StoreOps, registered: bool
    ) -> None:
        """They continue in the order of their turns, one per free slot. Items pushed meanwhile take
        part."""
        odd, even = where(odd=1).form, where(odd=0).form
        if registered:
            ops.channels.register_selection("q", odd)
        blocked.push(doc("free", key_values=form(os="linux", odd=1)))
        blocked.push(doc("last", key_values=form(os="mac", odd=1)))
        assert payloads(blocked.claim(9, select=odd)) == ["free"]
        turns = [(odd, n) for n in (*range(3, MANY, 2), "last")]
        turns += [(even, n) for n in range(2, MANY, 2)]
        for select, comes in turns:
            settle_one(blocked)
            assert payloads(blocked.claim(9, select=select)) == [comes]
            assert blocked.claim(9, select=ALL) == []
        assert blocked.in_state(1) == []

    def test_a_free_slot_stays_for_claims_that_select_it(self, blocked: Queue) -> None:
        """A claim that selects none of the blocked channels does not use up the free slot."""
        settle_one(blocked)
        for _ in range(2):
            assert blocked.claim(9, select=where(os="linux").form) == []
        assert payloads(blocked.claim(1, select=where(odd=1).form)) == [3]
        assert blocked.claim(9, select=ALL) == []
        settle_one(blocked)
        assert payloads(blocked.claim(9, select=ALL)) == [2]

    @needs("channels")
    @pytest.mark.parametrize(
        ("change", "comes"),
        [
            (lambda q: q.ops.limits.change("two", None, 5), 3),
            (lambda q: q.ops.limits.delete("two"), MANY - 3),
            (
                lambda q: q.ops.limits.add_override("two", override("o", -1, os="mac", odd=1)),
                MANY // 2 - 1,
            ),
            (settle_one, 1),
            (lambda q: q.settle(q.in_state(2)[0], "release"), 1),
            (lambda q: q.ops.channels.delete("q", where(n=1).form, 9), 1),
        ],
        ids=["raised", "deleted", "overridden", "settled", "released", "channels"],
    )
    def test_a_waiter_is_woken_when_a_slot_is_free(
        self, blocked: Queue, ops: StoreOps, change: Callable[[Queue], Any], comes: int
    ) -> None:
        """This holds even if the last claim skipped all parked channels."""
        settle_one(blocked)
        assert payloads(blocked.claim(1, select=ALL)) == [2]
        assert blocked.claim(9, select=ALL) == []
        waiter = ops.store.waiter("queue/q")
        try:
            change(blocked)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
        assert len(blocked.claim(2 * MANY, select=ALL)) == comes
        assert blocked.claim(9, select=ALL) == []

    def test_two_limits_of_one_counter(self, q: Queue, ops: StoreOps) -> None:
        """Channels with the higher limit continue first. The others stay blocked until their own
        limit has free slots."""
        ops.limits.create([rule("four", 4, os=ANY), rule("two", 2, os="mac")])
        ops.limits.add_override("two", override("vip", -1, os="mac", vip="yes"))
        for vip in ("no", "yes"):
            names = [form(os="mac", vip=vip, n=n) for n in range(MANY)]
            q.push(*(doc(vip, key_values=name) for name in names))

        def end(count: int) -> list[Any]:
            ops.queues.settle("q", [outcome_of(item, "complete") for item in q.in_state(2)[:count]])
            return payloads(q.claim(9, select=ALL))

        assert end(0) == ["no", "no", "yes", "yes"]
        assert end(0) == []
        assert [end(1), end(1), end(2), end(0)] == [["yes"], ["yes"], ["yes", "yes"], []]
        assert end(3) == ["no", "yes", "yes"]

    def test_a_limit_of_zero_admits_nothing(self, q: Queue, ops: StoreOps) -> None:
        """It blocks its channels until the rule changes. Other channels are not affected."""
        ops.limits.create([rule("off", 0, os="mac")])
        q.push(*(doc(n, key_values=form(os="mac", n=n)) for n in range(MANY)))
        q.push(doc("linux", key_values=form(os="linux")))
        assert payloads(q.claim(9, select=ALL)) == ["linux"]
        assert q.claim(9, select=ALL) == []
        ops.limits.change("off", None, 1)
        assert payloads(q.claim(9, select=ALL)) == [0]

    @needs("transactions")
    def test_a_rollback_changes_nothing(self, hr: Any, blocked: Queue) -> None:
        """Slots that are released and used in a transaction stay as they were if it is rolled
        back."""
        [first, _] = blocked.in_state(2)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            mine = Queue(StoreOps(tx))
            mine.settle(first, "complete")
            assert payloads(mine.claim(9, select=ALL)) == [2]
            raise ZeroDivisionError
        assert blocked.claim(9, select=ALL) == []
        with hr.transaction() as tx:
            mine = Queue(StoreOps(tx))
            mine.settle(first, "complete")
            assert payloads(mine.claim(9, select=ALL)) == [2]
        assert blocked.claim(9, select=ALL) == []

    def test_a_queue_dropped_and_made_again(self, blocked: Queue, ops: StoreOps) -> None:
        """The limit still holds, whether the queue's data was kept or not."""
        ops.queues.drop("q", True)
        blocked.create()
        assert len(blocked.claim(9, select=ALL)) == 2
        assert blocked.claim(9, select=ALL) == []
        ops.queues.drop("q", False)
        blocked.push(doc("new", key_values=form(os="mac")))
        assert payloads(blocked.claim(9, select=ALL)) == ["new"]
