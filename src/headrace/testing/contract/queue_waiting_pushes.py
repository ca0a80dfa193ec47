"""The guarantees of a push that waits for capacity."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.errors import InvalidOption, PushTimeout, QueueFull
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.queue_clients import soon

A = {"name": "a"}


class WaitingPushContract(Contract):
    """A push to a full queue can wait until the queue has capacity."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        q = hr.queues.create("small", max_items=2, max_channel_items=1, exist_ok=True)
        q.push(1, channel=A)
        q.push(2)
        return q

    @pytest.mark.parametrize("end", ["complete", "kill", "drop"])
    def test_a_waiting_push_succeeds_when_an_item_ends(
        self, q: Any, connect: Connect, end: str
    ) -> None:
        """With any outcome, in any process."""
        [item] = connect().queue("small").claim()
        with soon(getattr(item, end)):
            assert q.push(3, wait=20).pushed == 1
        assert sorted(item.payload for item in q.claim(9)) == [2, 3]

    def test_a_waiting_push_succeeds_when_the_capacity_is_raised(
        self, q: Any, connect: Connect
    ) -> None:
        """Immediately, and completely."""
        other = connect()
        with soon(lambda: other.queues.create("small", max_items=4, exist_ok=True)):
            assert q.push_many([3, 4], wait=20).pushed == 2

    @needs("channels")
    def test_a_waiting_push_waits_for_its_own_channel(self, q: Any, connect: Connect) -> None:
        """Not for others."""
        other = connect().queues.create("small", max_items=9, exist_ok=True)
        [item] = other.claim()
        with soon(item.complete):
            assert q.push(3, channel=A, wait=20).pushed == 1
        assert q.channels.get(A).waiting == 1

    def test_an_upsert_waits_if_it_adds_an_item(self, q: Any, hr: Any, connect: Connect) -> None:
        """An upsert that updates an item does not wait. Both hold alone and within a list."""
        other = connect().queue("small")
        for upsert in (
            lambda: q.upsert(3, subject="s", wait=20),
            lambda: hr.upsert_many("small", [Doc(4, subject="t")], wait=20),
        ):
            [item] = other.claim()
            with soon(item.complete):
                assert upsert().pushed == 1
        assert q.upsert(5, subject="s", wait=0).updated == 1
        assert hr.upsert("small", 6, subject="t").updated == 1
        with pytest.raises(PushTimeout):
            hr.upsert("small", 7, subject="u", wait=0.05)
        with pytest.raises(PushTimeout):
            q.upsert_many([Doc(7, subject="u")], wait=0.05)

    def test_a_waiting_push_times_out(self, q: Any) -> None:
        """Its error differs from that of a push that did not wait. Nothing is pushed."""
        with pytest.raises(PushTimeout, match="max_items is 2") as caught:
            q.push(3, wait=0.05)
        assert caught.value.details["limit"] == 2
        with pytest.raises(QueueFull) as refused:
            q.push(3)
        assert not isinstance(refused.value, PushTimeout)
        assert q.stats().pending == 2

    def test_a_push_does_not_wait_if_there_is_capacity(self, hr: Any) -> None:
        """Nor in a queue without a limit."""
        assert hr.push("large", 1, wait=0).pushed == 1
        assert hr.push("large", 1, wait=None).pushed == 1

    @pytest.mark.parametrize("wait", [-1, "soon", float("nan")])
    def test_invalid_waits_are_refused(self, hr: Any, wait: Any) -> None:
        """Before anything is pushed."""
        with pytest.raises(InvalidOption, match="wait"):
            hr.push("large", 1, wait=wait)
        assert hr.queues.list() == []

    @needs("transactions")
    def test_a_transaction_does_not_wait(self, q: Any, hr: Any) -> None:
        """It could not see capacity that others free."""
        with pytest.raises(InvalidOption, match="outside"), hr.transaction() as tx:
            tx.push("small", 3, wait=1)
        with pytest.raises(InvalidOption, match="outside"), hr.transaction() as tx:
            tx.upsert("small", 3, subject="s", wait=1)
