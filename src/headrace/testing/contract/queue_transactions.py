"""Operations on queues that share a transaction with others."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import ItemFilter
from headrace.errors import QueueExists, UnknownItem, UnknownQueue
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    check_counts,
    doc,
    ids,
)
from headrace.testing.contract.queue_workers import client, worker
from headrace.testing.contract.transactions import Undo

MINUTE = 60


def everything(ops: StoreOps) -> Any:
    """Everything that can be read of the queues ``q`` and ``r``."""
    seen: list[Any] = [
        ops.queues.list("", "", 9),
        ops.queues.counts(None, False),
        ops.queues.defaults(),
    ]
    for info in ops.queues.list("", "", 9):
        queue = Queue(ops, info.name)
        seen += [queue.in_state(state) for state in (-1, 0, 1, 2, 3)]
        seen += [queue.errors(), ops.queues.samples(info.name, 0, 9)]
    return [*seen, ops.queues.clients(), ops.queues.workers(None)]


class QueueTransactionContract(QueueContract):
    """All or none, together with records and with each other, if the store ``supports_transactions``."""

    needed_parts = frozenset({"transactions"})

    def test_a_block_is_applied_when_it_ends(self, hr: Any, q: Queue) -> None:
        """Items, outcomes and records appear together."""
        q.fill(1)
        with hr.transaction() as tx:
            inside = Queue(StoreOps(tx))
            item = inside.claim_one()
            inside.push("more")
            tx.commit("t", {"n": 1})
            inside.settle(item, "complete")
        assert hr.topic("t").length() == 1
        assert q.claim_all() == ["more"]

    def test_an_exception_rolls_everything_back(
        self, hr: Any, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Everything is as it was before the block."""
        q.create(keep="all", while_active="next", max_attempts=3, dead_to=[])
        q.push(*(doc(n, subject=str(n)) for n in range(6)), doc("late", delay=1000))
        q.end("kill", failure="x")
        q.end("complete")
        q.claim_one(lease_ms=1000)
        out = q.claim_one()
        ops.queues.maintain("q", 10)
        ops.queues.heartbeat(client(), [worker()])
        clock.advance(MINUTE)
        before = everything(ops)
        with pytest.raises(Undo), hr.transaction() as tx:
            within = StoreOps(tx)
            inside, other = Queue(within), Queue(within, "r")
            inside.upsert(doc("new", subject="3"), doc("new", subject="5"), doc("x", subject="6"))
            inside.settle(out, "reject", failure="y", pushes=(other.call(1),))
            inside.end("drop")
            inside.claim(9)
            within.queues.redrive("q", ItemFilter(), None, 9)
            inside.update(discipline="lifo", metrics=False)
            within.queues.pause("q", "ann")
            within.queues.freeze("q", 1000, "stopped")
            within.queues.heartbeat(client("c2"), [worker("w2", of="c2")])
            within.queues.unregister("c1")
            within.queues.set_defaults({"lease": 5})
            within.queues.maintain("q", 10)
            within.queues.drop("q", True)
            inside.create(discipline="fifo")
            within.queues.drop("q", False)
            raise Undo
        assert everything(ops) == before
        assert q.settle(out, "complete").state == "completed"

    def test_a_rolled_back_push_does_not_use_its_key(self, hr: Any, q: Queue) -> None:
        with pytest.raises(Undo), hr.transaction() as tx:
            Queue(StoreOps(tx)).push(1, key="k", digest="d")
            raise Undo
        assert q.push(2, key="k", digest="e").notes == ()
        assert q.claim_all() == [2]

    def test_a_rolled_back_push_does_not_use_its_subject(self, hr: Any, q: Queue) -> None:
        """Even if subjects are unique for ever."""
        q.create(unique="forever")
        with pytest.raises(Undo), hr.transaction() as tx:
            inside = Queue(StoreOps(tx))
            inside.push(doc(1, subject="s"))
            inside.end("complete")
            raise Undo
        assert q.push(doc(2, subject="s")).notes == ()

    def test_a_refused_operation_leaves_no_trace(self, hr: Any, ops: StoreOps, q: Queue) -> None:
        """The transaction continues as it was before that operation."""
        [id] = q.fill(1)
        with hr.transaction() as tx:
            within = StoreOps(tx)
            inside = Queue(within)
            inside.push("more")
            with pytest.raises(QueueExists):
                within.queues.create("q", {}, True)
            with pytest.raises(UnknownItem):
                within.queues.cancel_item("q", 10**9)
            with pytest.raises(UnknownQueue):
                within.queues.redrive("nowhere", ItemFilter(), "new", 9)
            assert ids(inside.claim(1)) == [id]
        assert [info.name for info in ops.queues.list("", "", 9)] == ["q"]
        assert q.claim_all() == ["more"]
        check_counts(ops)

    def test_a_transaction_sees_its_own_items(self, hr: Any, q: Queue) -> None:
        """It can claim and settle the items that it pushed. Nothing is left at its end."""
        with hr.transaction() as tx:
            inside = Queue(StoreOps(tx))
            [id] = inside.push(doc(1, subject="s")).ids
            assert inside.item("s").id == id
            assert inside.counts().pending == 1
            inside.end("complete")
        assert q.counts().total == 0
