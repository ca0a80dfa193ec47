"""Outcomes of claimed items through the public client."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.documents import Commit, Doc, Push
from headrace.errors import HeadraceError, InvalidOption, ItemLost, NotConnected
from headrace.model.queues.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract, bodies, needs
from headrace.testing.contract.queue_clients import NOON, at


class ItemOutcomeContract(Contract):
    """Each outcome of a claimed item."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create(
            "q", keep="all", reject_delay=30.0, reschedule_delay=5.0, exist_ok=True
        )

    @pytest.fixture
    def item(self, q: Any) -> Any:
        q.push({"n": 1}, subject="s")
        [item] = q.claim()
        return item

    def test_complete(self, q: Any, item: Any, clock: FakeClock) -> None:
        item.complete(payload={"n": 2})
        ended = q.item("s")
        assert (ended.state, ended.payload, ended.cause) == (State.COMPLETED, {"n": 2}, "completed")
        assert ended.ended_at == ended.last_settled_at == at(clock)
        assert (ended.times_settled, ended.token) == (1, None)

    def test_reschedule(self, q: Any, item: Any, clock: FakeClock) -> None:
        """At a time, after a delay, or with the delay of the queue. None is a payload like any
        other."""
        assert item.reschedule() == at(clock) + timedelta(seconds=5)
        clock.advance(5)
        [again] = q.claim()
        assert again.reschedule(delay="1m", payload=None) == at(clock) + timedelta(minutes=1)
        clock.advance(60)
        [again] = q.claim()
        assert (again.payload, again.attempts, again.times_settled) == (None, 1, 2)
        assert again.reschedule(at=NOON) == NOON

    def test_reject(self, q: Any, item: Any, clock: FakeClock) -> None:
        assert item.reject(ValueError("no such order")) == at(clock) + timedelta(seconds=30)
        waiting = q.item("s")
        assert (waiting.last_error.type, waiting.last_error.message) == (
            "ValueError",
            "no such order",
        )
        clock.advance(30)
        [again] = q.claim()
        assert again.reject("once more", at=NOON) == NOON
        assert [entry.failure.message for entry in q.errors()] == ["once more", "no such order"]
        [entry] = q.errors(item=item.id, limit=1)
        assert (entry.attempt, entry.time) == (2, at(clock))

    def test_the_last_reject(self, hr: Any) -> None:
        q = hr.queue("q")
        q.push(1, max_attempts=1)
        [item] = q.claim()
        assert item.reject("bad") is None
        assert q.dead.get(item.id).cause == "rejected"

    def test_kill_and_drop(self, q: Any, item: Any) -> None:
        item.kill("poison")
        assert q.dead.count() == 1
        q.push(2)
        [other] = q.claim()
        other.drop()
        assert q.stats().total == 1

    def test_release(self, q: Any, item: Any) -> None:
        item.release()
        [again] = q.claim()
        assert (again.id, again.attempts) == (item.id, 1)

    def test_extend(self, q: Any, item: Any, clock: FakeClock) -> None:
        """By a given time, or by the lease of the claim."""
        clock.advance(200)
        item.extend()
        clock.advance(299)
        assert q.claim() == []
        item.extend("10s")
        clock.advance(9)
        assert q.claim() == []
        assert q.extend([item], timedelta(seconds=1)) == [item.id]
        clock.advance(1)
        assert len(q.claim()) == 1
        with pytest.raises(ItemLost):
            item.extend()
        assert q.extend([item]) == []
        for lease in (0, -1, "soon"):
            with pytest.raises(InvalidOption):
                item.extend(lease)

    def test_a_settled_item_is_lost_to_its_claim(self, item: Any) -> None:
        item.complete()
        uses = (
            item.complete,
            item.reschedule,
            item.reject,
            item.kill,
            item.drop,
            item.release,
            item.extend,
        )
        for use in uses:
            with pytest.raises(ItemLost) as caught:
                use()
            assert (caught.value.queue, caught.value.item) == ("q", item.id)

    def test_an_item_that_was_not_claimed_cannot_be_settled(self, q: Any, item: Any) -> None:
        seen = q.item(item.id)
        assert (seen.state, seen.token, seen.worker) == (State.ACTIVE, None, item.worker)
        assert not hasattr(seen, "complete")
        with pytest.raises(ItemLost):
            seen.outcome("complete")
        item.complete()

    def test_follow_ups_are_written_with_the_outcome(self, hr: Any, item: Any) -> None:
        item.complete(
            then=[
                Commit("done", {"id": item.id}, {"h": "1"}),
                Push("mail", {"to": "ann"}, subject="ann", delay="5m"),
                Commit("done", {"more": True}),
                Push("q", "again", subject="s"),
            ]
        )
        assert bodies(hr.range("done")) == [{"id": item.id}, {"more": True}]
        assert hr.range("done")[0].headers == {"h": "1"}
        assert hr.queue("mail").items("planned")[0].subject == "ann"
        assert hr.queue("q").item("s").payload == "again"

    def test_a_single_follow_up_needs_no_list(self, hr: Any, item: Any) -> None:
        item.complete(then=Push("mail", 1))
        assert [found.payload for found in hr.queue("mail").items("pending")] == [1]

    def test_follow_ups_of_a_lost_item_are_not_written(self, hr: Any, q: Any, item: Any) -> None:
        item.release()
        with pytest.raises(ItemLost):
            item.complete(then=[Commit("done", {}), Push("mail", 1)])
        assert hr.topics.list() == []
        assert [info.name for info in hr.queues.list()] == ["q"]

    def test_invalid_follow_ups_are_refused(self, item: Any) -> None:
        wrong: Any
        for wrong in ([("done", {})], [Commit("done", 5)], [Push("no/good", 1)], 5):
            with pytest.raises(HeadraceError):
                item.complete(then=wrong)
        for options in ({"at": NOON, "delay": 1}, {"delay": -1}):
            with pytest.raises(InvalidOption):
                item.reschedule(**options)
        with pytest.raises(InvalidOption):
            item.outcome("complete", delay=5)
        with pytest.raises(InvalidOption):
            item.outcome("finish")
        with pytest.raises(InvalidOption):
            item.reject(5)
        item.complete()

    def test_many_items_are_settled_in_one_call(self, hr: Any, q: Any) -> None:
        """Each has its answer, in order. A lost item affects no other."""
        q.push_many(range(5))
        one, two, three, four, five = q.claim(5)
        two.drop()
        settled = q.settle(
            [
                one.outcome("complete", then=[Commit("done", {"n": 1})]),
                two.outcome("complete", then=[Commit("done", {"n": 2})]),
                three.outcome("reject", error="no", delay=60),
                four.outcome("kill"),
                five.outcome("release"),
            ]
        )
        assert [(answer.item, answer.state) for answer in settled] == [
            (one.id, "completed"),
            (two.id, "lost"),
            (three.id, "planned"),
            (four.id, "dead"),
            (five.id, "pending"),
        ]
        assert bodies(hr.range("done")) == [{"n": 1}]
        items = q.claim(5)
        assert [answer.state for answer in q.complete(items)] == ["completed"]
        assert [answer.state for answer in q.release(items)] == ["lost"]
        with pytest.raises(InvalidOption):
            q.settle([items[0]])

    @needs("transactions")
    def test_pushes_commits_and_outcomes_are_one_transaction(
        self, hr: Any, q: Any, item: Any
    ) -> None:
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            tx.push("new", 1)
            tx.commit("t", {})
            tx.settle("q", [item.outcome("complete")])
            raise ZeroDivisionError
        assert (hr.topics.list(), len(hr.queues.list()), q.stats().active) == ([], 1, 1)
        with hr.transaction() as tx:
            assert tx.push("new", 1, subject="s").pushed == 1
            assert tx.push_many("new", [2, 3]).pushed == 2
            assert tx.upsert("new", 4, subject="s").updated == 1
            assert tx.upsert_many("new", [Doc(5, subject="s")]).updated == 1
            tx.commit("t", {"n": 1})
            [settled] = tx.settle("q", [item.outcome("complete")])
            assert settled.state == "completed"
        assert [item.payload for item in hr.queue("new").claim(9)] == [5, 2, 3]
        assert bodies(hr.range("t")) == [{"n": 1}]
        with pytest.raises(NotConnected):
            tx.push("new", 1)
