"""How much a queue may hold."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Pushed, PushFull
from headrace.core.documents import Doc, Push
from headrace.core.where import where
from headrace.errors import InvalidOption, PushError, QueueFull
from headrace.model.keyvalues import KeyValues
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads

A, B = (KeyValues.of({"name": name}).form for name in "ab")
UPDATEABLE = {"updateable": True}


class FillingContract(QueueContract):
    """A queue, or a channel, that may hold so many items is full at some time."""

    @pytest.mark.parametrize("metrics", [True, False])
    def test_a_full_queue_takes_no_more(self, q: Queue, metrics: bool) -> None:
        """What waits and what is out counts; room comes with each item that ends."""
        q.create(max_items=3, metrics=metrics, reject_delay=0)
        q.push(1, 2)
        item = q.claim_one()
        q.push(doc(3, delay=1000))
        full = PushFull("q", 3, None)
        assert q.desk.push([q.call(4)]) == [full]
        q.settle(item, "reject")
        assert q.desk.push([q.call(4)]) == [full]
        q.settle(q.claim_one(), "complete")
        assert isinstance(q.desk.push([q.call(4)])[0], Pushed)

    def test_a_call_comes_whole_or_not_at_all(self, q: Queue, desk: Desk) -> None:
        """Its neighbours are not affected."""
        q.create(max_items=3)
        other = Queue(desk, "other")
        calls = [q.call(1, 2), q.call(3, 4), other.call(5), q.call(6)]
        kinds = [type(outcome) for outcome in desk.push(calls)]
        assert kinds == [Pushed, PushFull, Pushed, Pushed]
        assert (q.claim_all(), other.claim_all()) == ([1, 2, 6], [5])

    @pytest.mark.parametrize(("limit", "fits"), [(-1, True), (0, False), (1, True)])
    def test_no_limit_and_no_room(self, q: Queue, limit: int, fits: bool) -> None:
        """As Willow has it."""
        q.create(max_items=limit)
        [outcome] = q.desk.push([q.call(1)])
        assert isinstance(outcome, Pushed) == fits

    def test_updates_are_free(self, q: Queue) -> None:
        """Upserts of a subject, what is skipped, and newer content of a channel."""
        q.create(max_items=2)
        q.push(doc(1, subject="s"), doc(2, key_values=A, overrides=UPDATEABLE))
        q.push(doc(3, subject="s"), mode="upsert")
        assert q.push(doc(4, subject="s")).notes[0].reason == "exists"
        q.push(doc(5, key_values=A))
        assert sorted(q.claim_all()) == [3, 5]

    def test_what_comes_by_itself_always_comes(self, q: Queue, desk: Desk) -> None:
        """Successors, and what is made live again."""
        q.create(max_items=1)
        q.push(doc(1, subject="s"))
        item = q.claim_one()
        q.push(doc(2, subject="s"), mode="upsert", while_active="next")
        q.settle(item, "kill")
        q.end("kill")
        q.push(3)
        desk.retry_item("q", q.dead()[0].item.id)
        assert sorted(payloads(q.claim(5))) == [1, 3]

    def test_a_full_channel(self, q: Queue) -> None:
        """Each has its own room."""
        q.create(max_channel_items=1)
        q.push(doc(1, key_values=A), doc(2), doc(3))
        full = PushFull("q", 1, A)
        assert q.desk.push([q.call(doc(4, key_values=A))]) == [full]
        both = q.call(doc(5, key_values=B), doc(6, key_values=B))
        assert q.desk.push([both]) == [PushFull("q", 1, B)]
        q.push(doc(7, key_values=B))
        q.settle(q.claim_one(select=where(name="a").form), "complete")
        q.push(doc(8, key_values=A))
        assert sorted(q.claim_all()) == [2, 3, 7, 8]

    def test_what_moves_in_the_same_call_counts(self, q: Queue) -> None:
        """In the channel to which it goes, and no longer in the other."""
        q.create(max_channel_items=1)
        q.push(doc(1, subject="s", key_values=A))
        moves = doc(2, subject="s", key_values=B)
        both = q.call(moves, doc(3, key_values=B), mode="upsert")
        assert q.desk.push([both]) == [PushFull("q", 1, B)]
        q.upsert(moves, doc(3, key_values=A))
        assert sorted(q.claim_all()) == [2, 3]

    def test_a_key_of_a_refused_call_can_be_used_again(self, q: Queue) -> None:
        """It counts once it has pushed something."""
        q.create(max_items=1)
        q.push(1)
        call = q.call(2, key="k", digest="d")
        assert q.desk.push([call]) == [PushFull("q", 1, None)]
        q.settle(q.claim_one(), "complete")
        [pushed] = q.desk.push([call])
        assert isinstance(pushed, Pushed)
        assert q.desk.push([call]) == [pushed]

    def test_a_lower_limit_takes_nothing_away(self, q: Queue) -> None:
        """New items wait for room; a higher one makes it."""
        q.push(1, 2, 3)
        q.update(max_items=2)
        q.settle(q.claim_one(), "complete")
        assert q.desk.push([q.call(4)]) == [PushFull("q", 2, None)]
        q.update(max_items=3)
        assert isinstance(q.desk.push([q.call(4)])[0], Pushed)

    def test_what_goes_with_an_outcome(self, q: Queue, desk: Desk) -> None:
        """Both or neither: the outcome is refused with its push."""
        full = Queue(desk, "full")
        full.create(max_items=0)
        q.push(1)
        item = q.claim_one()
        with pytest.raises(QueueFull):
            q.settle(item, "complete", pushes=(full.call(2),))
        assert q.settle(item, "complete").state == "completed"

    def test_users_get_an_error(self, hr: Any) -> None:
        """That names the queue and the limit, and may be tried again."""
        queue = hr.queue("q", max_items=1)
        queue.push(1)
        with pytest.raises(QueueFull) as caught:
            queue.push_many([Doc(2)])
        error = caught.value
        assert (error.queue, error.limit, error.channel, error.retryable) == ("q", 1, None, True)
        assert isinstance(error, PushError)
        [item] = queue.claim()
        item.complete(then=[Push("q", 3)])
        assert [item.payload for item in queue.claim()] == [3]

    @pytest.mark.parametrize("option", ["max_items", "max_channel_items"])
    def test_a_wrong_limit_is_refused(self, q: Queue, option: str) -> None:
        with pytest.raises(InvalidOption, match=option):
            q.create(**{option: -2})
