"""The capacity of queues and channels."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Pushed, PushFull
from headrace.core.documents import Doc, Push
from headrace.core.where import where
from headrace.errors import InvalidOption, QueueFull, UnknownTopic
from headrace.model.query.key_values import KeyValues
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps, doc, payloads

A, B = (KeyValues.of({"name": name}).form for name in "ab")
UPDATEABLE = {"updateable": True}


class QueueCapacityContract(QueueContract):
    """A queue or a channel with a maximum number of items can be full."""

    @pytest.mark.parametrize("metrics", [True, False])
    def test_a_full_queue_refuses_pushes(self, q: Queue, metrics: bool) -> None:
        """Pending items and items in flight count. Each item that ends frees a slot."""
        q.create(max_items=3, metrics=metrics, reject_delay=0)
        q.push(1, 2)
        item = q.claim_one()
        q.push(doc(3, delay=1000))
        full = PushFull("q", 3, None)
        assert q.ops.queues.push([q.call(4)]) == [full]
        q.settle(item, "reject")
        assert q.ops.queues.push([q.call(4)]) == [full]
        q.settle(q.claim_one(), "complete")
        assert isinstance(q.ops.queues.push([q.call(4)])[0], Pushed)

    def test_a_push_is_accepted_whole_or_not_at_all(self, q: Queue, ops: StoreOps) -> None:
        """Other calls of the operation are not affected."""
        q.create(max_items=3)
        other = Queue(ops, "other")
        calls = [q.call(1, 2), q.call(3, 4), other.call(5), q.call(6)]
        kinds = [type(outcome) for outcome in ops.queues.push(calls)]
        assert kinds == [Pushed, PushFull, Pushed, Pushed]
        assert (q.claim_all(), other.claim_all()) == ([1, 2, 6], [5])

    @pytest.mark.parametrize(("limit", "fits"), [(-1, True), (0, False), (1, True)])
    def test_an_unlimited_and_a_closed_queue(self, q: Queue, limit: int, fits: bool) -> None:
        """The numbers are Willow's."""
        q.create(max_items=limit)
        [outcome] = q.ops.queues.push([q.call(1)])
        assert isinstance(outcome, Pushed) == fits

    def test_updates_need_no_capacity(self, q: Queue) -> None:
        """Upserts of a subject, skipped documents, and newer content of a channel."""
        q.create(max_items=2)
        q.push(doc(1, subject="s"), doc(2, key_values=A, overrides=UPDATEABLE))
        q.push(doc(3, subject="s"), mode="upsert")
        assert q.push(doc(4, subject="s")).notes[0].reason == "exists"
        q.push(doc(5, key_values=A))
        assert sorted(q.claim_all()) == [3, 5]

    def test_internal_pushes_are_always_accepted(self, q: Queue, ops: StoreOps) -> None:
        """Successors, and retried items."""
        q.create(max_items=1)
        q.push(doc(1, subject="s"))
        item = q.claim_one()
        q.push(doc(2, subject="s"), mode="upsert", while_active="next")
        q.settle(item, "kill")
        q.end("kill")
        q.push(3)
        ops.queues.retry_item("q", q.dead()[0].item.id)
        assert sorted(payloads(q.claim(5))) == [1, 3]

    def test_a_full_channel(self, q: Queue) -> None:
        """Each channel has its own capacity."""
        q.create(max_channel_items=1)
        q.push(doc(1, key_values=A), doc(2), doc(3))
        full = PushFull("q", 1, A)
        assert q.ops.queues.push([q.call(doc(4, key_values=A))]) == [full]
        both = q.call(doc(5, key_values=B), doc(6, key_values=B))
        assert q.ops.queues.push([both]) == [PushFull("q", 1, B)]
        q.push(doc(7, key_values=B))
        q.settle(q.claim_one(select=where(name="a").form), "complete")
        q.push(doc(8, key_values=A))
        assert sorted(q.claim_all()) == [2, 3, 7, 8]

    def test_items_moved_in_the_same_call_count(self, q: Queue) -> None:
        """In their new channel, and no longer in the old one."""
        q.create(max_channel_items=1)
        q.push(doc(1, subject="s", key_values=A))
        moves = doc(2, subject="s", key_values=B)
        both = q.call(moves, doc(3, key_values=B), mode="upsert")
        assert q.ops.queues.push([both]) == [PushFull("q", 1, B)]
        q.upsert(moves, doc(3, key_values=A))
        assert sorted(q.claim_all()) == [2, 3]

    def test_new_items_moved_in_the_same_call_count(self, q: Queue) -> None:
        """In the channel where the call leaves them."""
        q.create(max_channel_items=1)
        q.push(doc(1, key_values=B))
        to_b = [doc(2, subject="s", key_values=A), doc(3, subject="s", key_values=B)]
        assert q.ops.queues.push([q.call(*to_b, mode="upsert")]) == [PushFull("q", 1, B)]
        to_a = [doc(4, subject="s", key_values=B), doc(5, subject="s", key_values=A)]
        q.upsert(*to_a)
        assert sorted(q.claim_all()) == [1, 5]

    @pytest.mark.parametrize("topic", [None, "kept"])
    def test_documents_of_one_item_count_once(self, q: Queue, topic: str | None) -> None:
        """A call that updates what it has just pushed needs the capacity for one item."""
        q.create(max_items=1, keep_superseded=topic)
        q.upsert(doc(1, subject="s"), doc(2, subject="s"))
        assert q.claim_all() == [2]

    def test_a_refused_call_leaves_nothing_of_its_first_documents(self, q: Queue) -> None:
        """Not even where the last ones show only later that they are too many."""
        q.create(max_items=2, keep_superseded="kept")
        docs = [doc(1, subject="s"), doc(2, subject="s"), doc(3, subject="t"), doc(4)]
        call = q.call(*docs, mode="upsert", key="k", digest="d")
        assert q.ops.queues.push([call]) == [PushFull("q", 2, None)]
        with pytest.raises(UnknownTopic):
            q.ops.topics.info("kept")
        q.upsert(*docs[:3])
        assert sorted(q.claim_all()) == [2, 3]

    def test_a_key_of_a_refused_call_can_be_used_again(self, q: Queue) -> None:
        """A key is used once a call has pushed something."""
        q.create(max_items=1)
        q.push(1)
        call = q.call(2, key="k", digest="d")
        assert q.ops.queues.push([call]) == [PushFull("q", 1, None)]
        q.settle(q.claim_one(), "complete")
        [pushed] = q.ops.queues.push([call])
        assert isinstance(pushed, Pushed)
        assert q.ops.queues.push([call]) == [pushed]

    def test_a_lower_capacity_removes_nothing(self, q: Queue) -> None:
        """Pushes are refused until items have ended. A higher capacity accepts them."""
        q.push(1, 2, 3)
        q.update(max_items=2)
        q.settle(q.claim_one(), "complete")
        assert q.ops.queues.push([q.call(4)]) == [PushFull("q", 2, None)]
        q.update(max_items=3)
        assert isinstance(q.ops.queues.push([q.call(4)])[0], Pushed)

    def test_an_outcome_is_refused_with_its_push(self, q: Queue, ops: StoreOps) -> None:
        """Both are applied or neither."""
        full = Queue(ops, "full")
        full.create(max_items=0)
        q.push(1)
        item = q.claim_one()
        with pytest.raises(QueueFull):
            q.settle(item, "complete", pushes=(full.call(2),))
        assert q.settle(item, "complete").state == "completed"

    def test_the_error_of_a_full_queue(self, hr: Any) -> None:
        """It names the queue and the limit, and is retryable."""
        queue = hr.queues.create("q", max_items=1, exist_ok=True)
        queue.push(1)
        with pytest.raises(QueueFull) as caught:
            queue.push_many([Doc(2)])
        error = caught.value
        assert (error.queue, error.limit, error.channel, error.retryable) == ("q", 1, None, True)
        [item] = queue.claim()
        item.complete(then=[Push("q", 3)])
        assert [item.payload for item in queue.claim()] == [3]

    @pytest.mark.parametrize("option", ["max_items", "max_channel_items"])
    def test_a_wrong_limit_is_refused(self, q: Queue, option: str) -> None:
        with pytest.raises(InvalidOption, match=option):
            q.create(**{option: -2})
