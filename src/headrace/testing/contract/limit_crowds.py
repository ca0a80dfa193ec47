"""Limits that hold many channels back: who comes when there is room.

Drivers may put channels that wait for room out of the way. Nobody must notice it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.where import where
from headrace.model.queries import Query
from headrace.model.typed import ANY
from headrace.testing.contract.limit_claims import form
from headrace.testing.contract.limit_rules import override, rule
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads, said

ALL = Query().form
# More than any driver lets stand in the way.
MANY = 120


def settle_one(q: Queue) -> None:
    """One item that is out is done."""
    assert q.settle(q.in_state(2)[0], "complete").state == "completed"


class LimitCrowdContract(QueueContract):
    """Claims by turns where most channels have no room."""

    @pytest.fixture
    def crowd(self, q: Queue, desk: Desk) -> Queue:
        """Two items out of so many channels, which is all that the rule lets through."""
        desk.create_limits([rule("two", 2, os="mac")])
        q.push(*(doc(n, key_values=form(os="mac", n=n, odd=n % 2)) for n in range(MANY)))
        assert payloads([*q.claim(1, select=ALL), *q.claim(1, select=ALL)]) == [0, 1]
        for _ in range(2):
            assert q.claim(9, select=ALL) == []
        return q

    @pytest.mark.parametrize("registered", [True, False])
    def test_all_have_their_turn(self, crowd: Queue, desk: Desk, registered: bool) -> None:
        """In the order of turns, as many as there is room for; what is pushed meanwhile too."""
        odd, even = where(odd=1).form, where(odd=0).form
        if registered:
            desk.register_selection("q", odd)
        crowd.push(doc("free", key_values=form(os="linux", odd=1)))
        crowd.push(doc("last", key_values=form(os="mac", odd=1)))
        assert payloads(crowd.claim(9, select=odd)) == ["free"]
        turns = [(odd, n) for n in (*range(3, MANY, 2), "last")]
        turns += [(even, n) for n in range(2, MANY, 2)]
        for select, comes in turns:
            settle_one(crowd)
            assert payloads(crowd.claim(9, select=select)) == [comes]
            assert crowd.claim(9, select=ALL) == []
        assert crowd.in_state(1) == []

    def test_room_is_for_whoever_selects_it(self, crowd: Queue) -> None:
        """A claim that selects none of those that wait takes nothing away from others."""
        settle_one(crowd)
        for _ in range(2):
            assert crowd.claim(9, select=where(os="linux").form) == []
        assert payloads(crowd.claim(1, select=where(odd=1).form)) == [3]
        assert crowd.claim(9, select=ALL) == []
        settle_one(crowd)
        assert payloads(crowd.claim(9, select=ALL)) == [2]

    @pytest.mark.parametrize(
        ("change", "comes"),
        [
            (lambda q: q.desk.change_limit("two", None, 5), 3),
            (lambda q: q.desk.delete_limit("two"), MANY - 3),
            (
                lambda q: q.desk.add_override("two", override("o", -1, os="mac", odd=1)),
                MANY // 2 - 1,
            ),
            (settle_one, 1),
            (lambda q: q.settle(q.in_state(2)[0], "release"), 1),
            (lambda q: q.desk.delete_channels("q", where(n=1).form, 9), 1),
        ],
        ids=["raised", "deleted", "overridden", "settled", "released", "channels"],
    )
    def test_who_waits_is_woken(
        self, crowd: Queue, desk: Desk, change: Callable[[Queue], Any], comes: int
    ) -> None:
        """Although the last claim need not have met any of them."""
        settle_one(crowd)
        assert payloads(crowd.claim(1, select=ALL)) == [2]
        assert crowd.claim(9, select=ALL) == []
        waiter = desk.store.waiter("queue/q")
        try:
            change(crowd)
            assert desk.is_woken(waiter)
        finally:
            waiter.close()
        assert len(crowd.claim(2 * MANY, select=ALL)) == comes
        assert crowd.claim(9, select=ALL) == []

    def test_two_limits_of_one_total(self, q: Queue, desk: Desk) -> None:
        """Who has the higher one goes on when there is room for it, and for others not yet."""
        desk.create_limits([rule("four", 4, os=ANY), rule("two", 2, os="mac")])
        desk.add_override("two", override("vip", -1, os="mac", vip="yes"))
        for vip in ("no", "yes"):
            names = [form(os="mac", vip=vip, n=n) for n in range(MANY)]
            q.push(*(doc(vip, key_values=name) for name in names))

        def end(count: int) -> list[Any]:
            desk.settle("q", [said(item, "complete") for item in q.in_state(2)[:count]])
            return payloads(q.claim(9, select=ALL))

        assert end(0) == ["no", "no", "yes", "yes"]
        assert end(0) == []
        assert [end(1), end(1), end(2), end(0)] == [["yes"], ["yes"], ["yes", "yes"], []]
        assert end(3) == ["no", "yes", "yes"]

    def test_nothing_is_let_through(self, q: Queue, desk: Desk) -> None:
        """Until the rule changes; others are not in the way of each other."""
        desk.create_limits([rule("off", 0, os="mac")])
        q.push(*(doc(n, key_values=form(os="mac", n=n)) for n in range(MANY)))
        q.push(doc("linux", key_values=form(os="linux")))
        assert payloads(q.claim(9, select=ALL)) == ["linux"]
        assert q.claim(9, select=ALL) == []
        desk.change_limit("off", None, 1)
        assert payloads(q.claim(9, select=ALL)) == [0]

    def test_in_a_transaction(self, hr: Any, crowd: Queue) -> None:
        """What is rolled back has changed nothing."""
        [first, _] = crowd.in_state(2)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            mine = Queue(Desk(tx))
            mine.settle(first, "complete")
            assert payloads(mine.claim(9, select=ALL)) == [2]
            raise ZeroDivisionError
        assert crowd.claim(9, select=ALL) == []
        with hr.transaction() as tx:
            mine = Queue(Desk(tx))
            mine.settle(first, "complete")
            assert payloads(mine.claim(9, select=ALL)) == [2]
        assert crowd.claim(9, select=ALL) == []

    def test_a_queue_dropped_and_made_again(self, crowd: Queue, desk: Desk) -> None:
        """With its data or without."""
        desk.drop_queue("q", True)
        crowd.create()
        assert len(crowd.claim(9, select=ALL)) == 2
        assert crowd.claim(9, select=ALL) == []
        desk.drop_queue("q", False)
        crowd.push(doc("new", key_values=form(os="mac")))
        assert payloads(crowd.claim(9, select=ALL)) == ["new"]
