"""From the log to a queue: a proc's ack and a push are one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import ClaimLost
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract


class FollowingContract(QueueContract):
    """``ack_push``: both or neither, and once."""

    def test_ack_and_push_happen_together(self, hr: Any, desk: Desk, q: Queue) -> None:
        """The proc moves behind its claim, and the items are there."""
        hr.commit_many("t", [{"n": 1}, {"n": 2}])
        claim = hr.proc("p", topic="t").claim(2)
        result = desk.ack_push("p", claim.token, [q.call("one", "two")])
        assert result.range == f"{claim[0].id}..{claim[1].id}"
        assert result.committed is None
        assert q.claim_all() == ["one", "two"]
        assert hr.proc("p").lag().records == 0

    def test_a_repeat_pushes_nothing(self, hr: Any, desk: Desk, q: Queue) -> None:
        """The same token and the same calls get the same answer, whoever has the items by now."""
        hr.commit("t", {"n": 1})
        claim = hr.proc("p", topic="t").claim()
        first = desk.ack_push("p", claim.token, [q.call("one")])
        assert q.claim_all() == ["one"]
        assert desk.ack_push("p", claim.token, [q.call("one")]) == first
        assert q.claim_all() == []
        with pytest.raises(ClaimLost):
            desk.ack_push("p", claim.token, [q.call("another")])

    def test_a_lost_claim_pushes_nothing(self, hr: Any, desk: Desk, q: Queue) -> None:
        """Nothing is pushed for records that somebody else has by now."""
        q.create()
        hr.commit("t", {"n": 1})
        proc = hr.proc("p", topic="t")
        token = proc.claim().token
        proc.reclaim()
        with pytest.raises(ClaimLost):
            desk.ack_push("p", token, [q.call("one")])
        assert q.claim_all() == []
        assert proc.lag().records == 1

    def test_to_several_queues(self, hr: Any, desk: Desk, q: Queue) -> None:
        """Each call has a queue of its own, and makes it if need be."""
        hr.commit("t", {"n": 1})
        token = hr.proc("p", topic="t").claim().token
        desk.ack_push("p", token, [q.call("one"), Queue(desk, "r").call("two")])
        assert q.claim_all() == ["one"]
        assert Queue(desk, "r").claim_all() == ["two"]

    def test_no_records_no_items(self, hr: Any, desk: Desk) -> None:
        """Without calls it is an ack."""
        hr.commit("t", {"n": 1})
        claim = hr.proc("p", topic="t").claim()
        assert desk.ack_push("p", claim.token, []).range == f"{claim[0].id}..{claim[0].id}"
        assert desk.queues("", "", 9) == []
