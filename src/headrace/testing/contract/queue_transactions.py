"""Operations on queues that share a transaction with others."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Filter
from headrace.errors import QueueExists, UnknownItem, UnknownQueue
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Desk,
    Queue,
    QueueContract,
    check_counts,
    doc,
    ids,
)
from headrace.testing.contract.queue_workers import client, worker
from headrace.testing.contract.transactions import Undo

MINUTE = 60


def everything(desk: Desk) -> Any:
    """All that can be seen of the queues ``q`` and ``r``."""
    seen: list[Any] = [desk.queues("", "", 9), desk.backlogs(None, False), desk.queue_defaults()]
    for info in desk.queues("", "", 9):
        queue = Queue(desk, info.name)
        seen += [queue.in_state(state) for state in (-1, 0, 1, 2, 3)]
        seen += [queue.errors(), desk.samples(info.name, 0, 9)]
    return [*seen, desk.clients(), desk.workers(None)]


class QueueTransactionContract(QueueContract):
    """All or none, together with records and with each other; where the store ``composes``."""

    @pytest.fixture(autouse=True)
    def _composes(self, hr: Any) -> None:
        assert hr.capabilities.composes, "a store that does not compose runs no such tests"

    def test_what_the_block_did_is_there_when_it_ends(self, hr: Any, q: Queue) -> None:
        """Items, outcomes and records appear together."""
        q.fill(1)
        with hr.transaction() as tx:
            inside = Queue(Desk(tx))
            item = inside.claim_one()
            inside.push("more")
            tx.commit("t", {"n": 1})
            inside.settle(item, "complete")
        assert hr.length("t") == 1
        assert q.claim_all() == ["more"]

    def test_an_exception_takes_everything_back(
        self, hr: Any, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """Whatever was done: each thing is as it was before."""
        q.create(keep="all", while_active="next", dead_threshold=3, dead_to=[])
        q.push(*(doc(n, subject=str(n)) for n in range(6)), doc("late", delay=1000))
        q.end("kill", failure="x")
        q.end("complete")
        q.claim_one(lease_ms=1000)
        out = q.claim_one()
        desk.tend_queue("q", 10)
        desk.beat(client(), [worker()])
        clock.advance(MINUTE)
        before = everything(desk)
        with pytest.raises(Undo), hr.transaction() as tx:
            within = Desk(tx)
            inside, other = Queue(within), Queue(within, "r")
            inside.upsert(doc("new", subject="3"), doc("new", subject="5"), doc("x", subject="6"))
            inside.settle(out, "reject", failure="y", pushes=(other.call(1),))
            inside.end("drop")
            inside.claim(9)
            within.redrive("q", Filter(), None, 9)
            inside.update(discipline="lifo", metrics=False)
            within.pause_queue("q", "ann")
            within.hold_queue("q", 1000, "stopped")
            within.beat(client("c2"), [worker("w2", of="c2")])
            within.leave("c1")
            within.set_queue_defaults({"lock_duration": 5})
            within.tend_queue("q", 10)
            within.drop_queue("q", True)
            inside.create(discipline="fifo")
            within.drop_queue("q", False)
            raise Undo
        assert everything(desk) == before
        assert q.settle(out, "complete").state == "completed"

    def test_a_key_of_a_push_that_was_taken_back_is_free(self, hr: Any, q: Queue) -> None:
        """It was never used."""
        with pytest.raises(Undo), hr.transaction() as tx:
            Queue(Desk(tx)).push(1, key="k", digest="d")
            raise Undo
        assert q.push(2, key="k", digest="e").notes == ()
        assert q.claim_all() == [2]

    def test_a_subject_that_was_taken_back_is_free(self, hr: Any, q: Queue) -> None:
        """Also where subjects are taken for ever."""
        q.create(unique="forever")
        with pytest.raises(Undo), hr.transaction() as tx:
            inside = Queue(Desk(tx))
            inside.push(doc(1, subject="s"))
            inside.end("complete")
            raise Undo
        assert q.push(doc(2, subject="s")).notes == ()

    def test_a_refused_operation_leaves_no_trace_and_the_rest_goes_on(
        self, hr: Any, desk: Desk, q: Queue
    ) -> None:
        """The transaction is as it was before that operation."""
        [id] = q.fill(1)
        with hr.transaction() as tx:
            within = Desk(tx)
            inside = Queue(within)
            inside.push("more")
            with pytest.raises(QueueExists):
                within.create_queue("q", {}, True)
            with pytest.raises(UnknownItem):
                within.cancel_item("q", 10**9)
            with pytest.raises(UnknownQueue):
                within.redrive("nowhere", Filter(), "new", 9)
            assert ids(inside.claim(1)) == [id]
        assert [info.name for info in desk.queues("", "", 9)] == ["q"]
        assert q.claim_all() == ["more"]
        check_counts(desk)

    def test_a_transaction_sees_its_own_items(self, hr: Any, q: Queue) -> None:
        """What it pushed it can claim and settle; in the end nothing is left."""
        with hr.transaction() as tx:
            inside = Queue(Desk(tx))
            [id] = inside.push(doc(1, subject="s")).ids
            assert inside.item("s").id == id
            assert inside.counts().pending == 1
            inside.end("complete")
        assert q.counts().total == 0
