"""From a topic to a queue: a proc's ack and a push in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import ClaimLost
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps


class AckPushContract(QueueContract):
    """``ack_push`` does both or neither, and once."""

    def test_ack_and_push_happen_together(self, hr: Any, ops: StoreOps, q: Queue) -> None:
        """The proc moves behind its claim, and the items exist."""
        hr.commit_many("t", [{"n": 1}, {"n": 2}])
        claim = hr.procs.create("p", "t").claim(2)
        result = ops.procs.ack_push("p", claim.token, [q.call("one", "two")])
        assert result.range == f"{claim[0].id}..{claim[1].id}"
        assert result.committed is None
        assert q.claim_all() == ["one", "two"]
        assert hr.proc("p").lag().records == 0

    def test_a_repeated_ack_push_pushes_nothing(self, hr: Any, ops: StoreOps, q: Queue) -> None:
        """The same token with the same calls gets the same answer, whatever happened to the items
        meanwhile."""
        hr.commit("t", {"n": 1})
        claim = hr.procs.create("p", "t").claim()
        first = ops.procs.ack_push("p", claim.token, [q.call("one")])
        assert q.claim_all() == ["one"]
        assert ops.procs.ack_push("p", claim.token, [q.call("one")]) == first
        assert q.claim_all() == []
        with pytest.raises(ClaimLost):
            ops.procs.ack_push("p", claim.token, [q.call("another")])

    def test_a_lost_claim_pushes_nothing(self, hr: Any, ops: StoreOps, q: Queue) -> None:
        """Another worker may have the records by now."""
        q.create()
        hr.commit("t", {"n": 1})
        proc = hr.procs.create("p", "t")
        token = proc.claim().token
        proc.nack()
        with pytest.raises(ClaimLost):
            ops.procs.ack_push("p", token, [q.call("one")])
        assert q.claim_all() == []
        assert proc.lag().records == 1

    def test_ack_push_to_several_queues(self, hr: Any, ops: StoreOps, q: Queue) -> None:
        """Each call names its queue, which is created if necessary."""
        hr.commit("t", {"n": 1})
        token = hr.procs.create("p", "t").claim().token
        ops.procs.ack_push("p", token, [q.call("one"), Queue(ops, "r").call("two")])
        assert q.claim_all() == ["one"]
        assert Queue(ops, "r").claim_all() == ["two"]

    def test_ack_push_without_calls_is_an_ack(self, hr: Any, ops: StoreOps) -> None:
        hr.commit("t", {"n": 1})
        claim = hr.procs.create("p", "t").claim()
        assert ops.procs.ack_push("p", claim.token, []).range == f"{claim[0].id}..{claim[0].id}"
        assert ops.queues.list("", "", 9) == []
