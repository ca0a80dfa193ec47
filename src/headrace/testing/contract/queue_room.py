"""What a push that waits for room promises."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.errors import InvalidOption, PushTimeout, QueueFull
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_clients import soon

A = {"name": "a"}


class RoomContract(Contract):
    """A push to a full queue can wait until somebody goes."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        q = hr.queue("small", max_items=2, max_channel_items=1)
        q.push(1, channel=A)
        q.push(2)
        return q

    @pytest.mark.parametrize("end", ["complete", "kill", "drop"])
    def test_it_comes_when_an_item_has_ended(self, q: Any, connect: Connect, end: str) -> None:
        """However that ended, and in whichever process."""
        [item] = connect().queue("small").claim()
        with soon(getattr(item, end)):
            assert q.push(3, wait=20).pushed == 1
        assert sorted(item.payload for item in q.claim(9)) == [2, 3]

    def test_it_comes_when_the_limit_is_raised(self, q: Any, connect: Connect) -> None:
        """At once, and all of it."""
        other = connect()
        with soon(lambda: other.queue("small", max_items=4)):
            assert q.push_many([3, 4], wait=20).pushed == 2

    def test_it_waits_for_its_channel(self, q: Any, connect: Connect) -> None:
        """Not for others."""
        other = connect().queue("small", max_items=9)
        [item] = other.claim()
        with soon(item.complete):
            assert q.push(3, channel=A, wait=20).pushed == 1
        assert q.channel(A).waiting == 1

    def test_a_new_item_of_an_upsert_waits(self, q: Any, hr: Any, connect: Connect) -> None:
        """As a push does; what updates an item comes at once. Alone and with others."""
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

    def test_its_time_may_be_over(self, q: Any) -> None:
        """It is told apart from a push that did not wait; nothing was pushed."""
        with pytest.raises(PushTimeout, match="max_items is 2") as caught:
            q.push(3, wait=0.05)
        assert caught.value.details["limit"] == 2
        with pytest.raises(QueueFull) as at_once:
            q.push(3)
        assert not isinstance(at_once.value, PushTimeout)
        assert q.stats().pending == 2

    def test_where_there_is_room_nobody_waits(self, hr: Any) -> None:
        """Nor in a queue that has no limit."""
        assert hr.push("large", 1, wait=0).pushed == 1
        assert hr.push("large", 1, wait=None).pushed == 1

    @pytest.mark.parametrize("wait", [-1, "soon", float("nan")])
    def test_bad_waits(self, hr: Any, wait: Any) -> None:
        """Are refused before anything is pushed."""
        with pytest.raises(InvalidOption, match="wait"):
            hr.push("large", 1, wait=wait)
        assert hr.queues() == []

    def test_a_transaction_does_not_wait(self, q: Any, hr: Any) -> None:
        """Nobody could make room that it sees."""
        with pytest.raises(InvalidOption, match="outside"), hr.transaction() as tx:
            tx.push("small", 3, wait=1)
        with pytest.raises(InvalidOption, match="outside"), hr.transaction() as tx:
            tx.upsert("small", 3, subject="s", wait=1)
