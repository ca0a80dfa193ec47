"""Limits on live items: how many may be pending and in flight."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Pushed, PushFull
from headrace.contract.limits import RuleRow
from headrace.errors import QueueFull
from headrace.model.query.typed_values import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import needs
from headrace.testing.contract.limit_claims import LINUX, MAC, fill, form, used
from headrace.testing.contract.limit_rules import override, pattern, rule
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps, doc, payloads


def full(id: str, limit: int, values: str) -> PushFull:
    return PushFull("q", limit, values, id)


class LimitPushContract(QueueContract):
    """Pushes under a rule that counts live items."""

    needed_parts = frozenset({"limits"})

    def test_a_push_is_admitted_whole_or_not_at_all(self, q: Queue, ops: StoreOps) -> None:
        """Items that are pending and items in flight count."""
        ops.limits.create([rule("two", 2, os=ANY, on="enqueued")])
        fill(q, MAC, 1)
        calls = [
            q.call(doc(2, key_values=MAC), doc(3, key_values=MAC)),
            q.call(doc(4, key_values=MAC), doc(5, key_values=LINUX), doc(6)),
            q.call(doc(7, key_values=MAC)),
        ]
        refusal = full("two", 2, MAC)
        assert [type(o) for o in ops.queues.push(calls)] == [PushFull, Pushed, PushFull]
        items = q.claim(9)
        assert sorted(payloads(items)) == [1, 4, 5, 6]
        assert ops.queues.push([calls[2]]) == [refusal]
        q.settle(items[0], "reject", delay_ms=60_000)
        assert ops.queues.push([calls[2]]) == [refusal]
        q.settle(items[1], "complete")
        assert isinstance(ops.queues.push([calls[2]])[0], Pushed)
        assert used(ops, "two") == {MAC: 2, LINUX: 1}

    def test_the_first_channel_of_a_queue(self, q: Queue, ops: StoreOps) -> None:
        """Its items count like those of any other channel."""
        ops.limits.create([rule("one", 1, os=ANY, on="enqueued")])
        q.create()
        two = q.call(doc(1, key_values=MAC), doc(2, key_values=MAC))
        assert ops.queues.push([two]) == [full("one", 1, MAC)]
        fill(q, MAC, 3)
        assert ops.queues.push([q.call(doc(4, key_values=MAC))]) == [full("one", 1, MAC)]
        assert used(ops, "one") == {MAC: 1}

    def test_new_items_moved_in_the_same_call_count(self, q: Queue, ops: StoreOps) -> None:
        """In the channel where the call leaves them, even if the other allows nothing."""
        ops.limits.create([rule("none", 0, os="mac", on="enqueued")])
        to_mac = [doc(1, subject="s", key_values=LINUX), doc(2, subject="s", key_values=MAC)]
        assert ops.queues.push([q.call(*to_mac, mode="upsert")]) == [full("none", 0, MAC)]
        to_linux = [doc(3, subject="s", key_values=MAC), doc(4, subject="s", key_values=LINUX)]
        assert q.upsert(*to_linux).ids[0] == q.claim_one().id

    @needs("channels")
    def test_every_end_frees_a_slot(self, q: Queue, ops: StoreOps) -> None:
        """An item that ends frees its slot, however it ends."""
        q.create(max_attempts=1)
        ops.limits.create([rule("one", 1, os=ANY, on="enqueued")])
        for kind in ("complete", "drop", "kill", "reject"):
            fill(q, MAC, 1)
            q.settle(q.claim_one(), kind)
        [id] = q.push(doc(2, key_values=MAC)).ids
        ops.queues.cancel_item("q", id)
        fill(q, MAC, 3)
        q.claim_one()
        ops.channels.delete("q", None, 9)
        fill(q, MAC, 4)
        assert used(ops, "one") == {MAC: 1}
        ops.queues.drop("q", False)
        fill(q, MAC, 5)

    @pytest.mark.parametrize("way", ["reject", "lease"])
    def test_an_item_dropped_for_newer_content_frees_its_slot(
        self, q: Queue, ops: StoreOps, clock: FakeClock, way: str
    ) -> None:
        """A failed item that is dropped in favour of newer content no longer counts."""
        ops.limits.create([rule("two", 2, os=ANY, on="enqueued")])
        overrides = {"updateable": True, "retry_position": "front"}
        q.push(doc(1, key_values=MAC, overrides=overrides))
        item = q.claim_one(lease_ms=1000)
        fill(q, MAC, 2)
        assert ops.queues.push([q.call(doc(3, key_values=MAC))]) == [full("two", 2, MAC)]
        if way == "reject":
            assert q.settle(item, "reject").state == "dropped"
        else:
            clock.advance(1)
            assert ops.queues.expire_leases("q", 9) == [item.id]
        assert used(ops, "two") == {MAC: 1}
        fill(q, MAC, 3)

    def test_updates_need_no_slot_and_may_move(self, q: Queue, ops: StoreOps) -> None:
        """An upsert that moves an item to another channel counts there."""
        ops.limits.create([rule("one", 1, os=ANY, on="enqueued")])
        q.push(doc(1, subject="s", key_values=MAC))
        q.upsert(doc(2, subject="s", key_values=MAC))
        assert q.push(doc(3, subject="s", key_values=MAC)).notes[0].reason == "exists"
        q.upsert(doc(4, subject="s", key_values=LINUX))
        assert used(ops, "one") == {LINUX: 1}
        fill(q, MAC, 5)

    def test_items_moved_in_the_same_call_count(self, q: Queue, ops: StoreOps) -> None:
        """They count in their new channel and no longer in the old one. New items may use the slot
        they leave."""
        ops.limits.create([rule("one", 1, os=ANY, on="enqueued")])
        q.push(doc(1, subject="s", key_values=MAC))
        moves = doc(2, subject="s", key_values=LINUX)
        both = q.call(moves, doc(3, key_values=LINUX), mode="upsert")
        assert ops.queues.push([both]) == [full("one", 1, LINUX)]
        assert used(ops, "one") == {MAC: 1}
        q.upsert(moves, doc(3, key_values=MAC))
        assert used(ops, "one") == {LINUX: 1, MAC: 1}

    def test_internal_pushes_are_always_admitted(self, q: Queue, ops: StoreOps) -> None:
        """They still count: retried items, and copies of dead items."""
        ops.limits.create([rule("one", 1, os=ANY, on="enqueued")])
        fill(q, MAC, 1)
        q.settle(q.claim_one(), "kill")
        fill(q, MAC, 2)
        [dead] = q.dead()
        ops.queues.retry_item("q", dead.item.id)
        assert used(ops, "one") == {MAC: 2}
        q.create(dead_to=("other",))
        q.settle(q.claim_one(), "kill")
        assert used(ops, "one") == {MAC: 2}

    def test_a_new_rule_counts_live_items(self, q: Queue, ops: StoreOps) -> None:
        """It counts the live items of all queues, pending or not."""
        other = Queue(ops, "other")
        fill(q, MAC, 1, 2)
        fill(other, MAC, 3)
        q.claim(1)
        ops.limits.create([rule("r", 3, os="mac", on="enqueued")])
        assert used(ops, "r") == {MAC: 3}
        assert ops.queues.push([q.call(doc(4, key_values=MAC))]) == [full("r", 3, MAC)]
        ops.limits.change("r", None, 4)
        fill(q, MAC, 4)
        ops.limits.add_override("r", override("o", -1, os="mac", x=1))
        fill(q, form(os="mac", x=1), 5, 6)
        assert used(ops, "r") == {MAC: 6}

    def test_an_empty_pattern_matches_every_push(self, q: Queue, ops: StoreOps) -> None:
        """It also counts items in no channel, however they are pushed."""
        ops.limits.create(
            [RuleRow(id="all", key_values=pattern(), limit=3, queue="q", on="enqueued")]
        )
        fill(q, None, 1)
        q.push(doc(2, subject="s"))
        assert ops.queues.push([q.call(3, 4)]) == [full("all", 3, "{}")]
        fill(q, MAC, 3)
        assert ops.queues.push([q.call(4)]) == [full("all", 3, "{}")]
        q.settle(q.claim_one(), "complete")
        fill(q, None, 4)
        assert used(ops, "all") == {"{}": 3}

    def test_a_refused_push_fails_the_whole_operation(self, q: Queue, ops: StoreOps) -> None:
        """An operation that contains the push fails with it, as on a full queue."""
        ops.limits.create([rule("one", 1, os="mac", on="enqueued")])
        fill(q, MAC, 1)
        fill(q, LINUX, 2)
        item = next(item for item in q.claim(9) if item.key_values == LINUX)
        with pytest.raises(QueueFull) as caught:
            q.settle(item, "complete", pushes=(q.call(doc(3, key_values=MAC)),))
        assert (caught.value.rule, caught.value.limit) == ("one", 1)
        assert q.settle(item, "complete").state == "completed"
        assert used(ops, "one") == {MAC: 1}

    @needs("transactions")
    def test_a_transaction_counts_all_or_nothing(self, hr: Any, q: Queue, ops: StoreOps) -> None:
        """The items count when the transaction commits, and not at all if it is rolled back."""
        ops.limits.create([rule("two", 2, os="mac", on="enqueued")])
        fill(q, MAC, 1)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            fill(Queue(StoreOps(tx)), MAC, 2)
            raise ZeroDivisionError
        with hr.transaction() as tx:
            mine = Queue(StoreOps(tx))
            fill(mine, MAC, 3)
            assert StoreOps(tx).queues.push([q.call(doc(4, key_values=MAC))]) == [
                full("two", 2, MAC)
            ]
        assert used(ops, "two") == {MAC: 2}
