"""The ready-made kinds of queues: simple, unique, and with acknowledgements."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.client.kinds import AckOpts
from headrace.errors import InvalidBody, InvalidOption, ItemLost, NoItemsWaiting
from headrace.model.queues import Backoff
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract

ONCE = AckOpts(max_retries=0)


class QueueKindContract(Contract):
    """gopq's four kinds, and what each does with duplicates, failures and what is processed."""

    def test_simple(self, hr: Any) -> None:
        """First in, first out; what is handed out is processed."""
        q = hr.simple_queue("jobs")
        first = q.enqueue(b"one")
        assert q.try_enqueue({"n": 2}) > first
        assert q.enqueue(b"one")
        assert q.len() == 3
        message = q.dequeue()
        assert (message.id, message.item, message.attempts) == (first, b"one", 1)
        assert q.try_dequeue().item == {"n": 2}
        assert q.dequeue(wait=1).item == b"one"
        assert q.len() == 0
        with pytest.raises(NoItemsWaiting) as caught:
            q.try_dequeue()
        assert caught.value.retryable
        with pytest.raises(NoItemsWaiting):
            q.dequeue(wait=0.02)

    def test_dequeue_waits(self, hr: Any, connect: Connect) -> None:
        q, other = hr.simple_queue("jobs"), connect()
        timer = threading.Timer(0.05, lambda: other.push("jobs", "hello"))
        timer.start()
        assert q.dequeue(wait=20).item == "hello"
        timer.join()

    @pytest.mark.parametrize(("processed", "kept"), [("store", 1), ("delete", 0), ("1h", 1)])
    def test_what_is_processed_is_stored_or_deleted(
        self, hr: Any, clock: FakeClock, processed: Any, kept: int
    ) -> None:
        simple = hr.simple_queue("simple", processed=processed)
        simple.enqueue("x")
        simple.dequeue()
        acked = hr.ack_queue("acked", AckOpts(processed=processed))
        acked.enqueue("x")
        acked.ack(acked.dequeue())
        for q in (simple, acked):
            assert q.queue.stats().completed == kept
        clock.advance(3600)
        hr.maintain(force=True)
        assert simple.queue.stats().completed == (processed == "store")

    def test_unique_while_live(self, hr: Any) -> None:
        """The same content is left out while it waits, whatever the order of its keys."""
        q = hr.unique_queue("jobs")
        assert q.enqueue({"a": 1, "b": 2})
        assert q.enqueue({"b": 2, "a": 1}) is None
        assert q.enqueue(b"x")
        assert q.try_enqueue(b"x") is None
        assert q.enqueue("x")
        assert q.len() == 3
        q.dequeue()
        assert q.enqueue({"a": 1, "b": 2})
        with pytest.raises(InvalidBody):
            q.enqueue({1, 2})

    def test_unique_for_ever(self, hr: Any) -> None:
        for q in (
            hr.unique_queue("jobs", unique="forever"),
            hr.unique_ack_queue("acked", unique="forever"),
        ):
            assert q.enqueue("x")
            message = q.dequeue()
            if q.name == "acked":
                q.ack(message)
            assert q.enqueue("x") is None
            assert q.len() == 0

    def test_unique_with_acks(self, hr: Any) -> None:
        """What is in flight counts; what is acknowledged or failed for good does not."""
        q = hr.unique_ack_queue("jobs", ONCE)
        q.enqueue("x")
        message = q.dequeue()
        assert q.enqueue("x") is None
        q.ack(message)
        assert q.enqueue("x")
        assert q.nack(q.dequeue()) is False
        assert q.enqueue("x")

    def test_ack(self, hr: Any, clock: FakeClock) -> None:
        q = hr.ack_queue("jobs")
        q.enqueue("x")
        message = q.dequeue()
        assert (q.len(), q.queue.stats().active) == (0, 1)
        assert (message.deadline.timestamp() * 1000) == clock.now + 30_000
        q.ack(message)
        for late in (q.ack, q.try_ack, q.nack, q.try_nack, q.expire_ack):
            with pytest.raises(ItemLost):
                late(message)
        assert q.queue.dead.count() == 0

    def test_what_is_not_acknowledged_comes_again_first(self, hr: Any, clock: FakeClock) -> None:
        """From when somebody has noticed; the late acknowledgement is refused, and it counts
        as a retry."""
        q = hr.ack_queue("jobs", AckOpts(ack_timeout="2s", max_retries=1))
        q.enqueue("x")
        q.enqueue("y")
        late = q.dequeue()
        clock.advance(2)
        hr.maintain(force=True)
        again = q.dequeue()
        assert (again.item, again.attempts) == ("x", 2)
        with pytest.raises(ItemLost):
            q.ack(late)
        clock.advance(2)
        assert q.dequeue().item == "y"
        with pytest.raises(NoItemsWaiting):
            q.try_dequeue()
        assert q.queue.dead.show(again.id).cause == "worker lost"

    def test_expire_ack(self, hr: Any) -> None:
        q = hr.ack_queue("jobs")
        q.enqueue("x")
        message = q.dequeue()
        q.expire_ack(message)
        again = q.try_dequeue()
        assert (again.id, again.attempts) == (message.id, 2)
        with pytest.raises(ItemLost):
            q.expire_ack(message)

    @pytest.mark.parametrize("retries", [0, 2])
    def test_retries_and_deliveries(self, hr: Any, retries: int) -> None:
        """So many retries are one delivery more."""
        q = hr.ack_queue("jobs", AckOpts(max_retries=retries))
        q.enqueue("x")
        q.enqueue("y")
        for left in range(retries, -1, -1):
            message = q.try_dequeue()
            assert message.item == "x"
            assert q.nack(message, "no") is (left > 0)
        assert q.try_dequeue().item == "y"
        assert [dead.payload for dead in q.queue.dead.list()] == ["x"]

    def test_retries_without_end(self, hr: Any) -> None:
        q = hr.ack_queue("jobs", AckOpts(max_retries=-1))
        q.enqueue("x")
        for _ in range(20):
            assert q.try_nack(q.try_dequeue())

    def test_a_nack_hides_for_the_backoff(self, hr: Any, clock: FakeClock) -> None:
        """Not for the timeout of the acknowledgement."""
        q = hr.ack_queue("jobs", AckOpts(ack_timeout="1h", retry_backoff=5))
        q.enqueue("x")
        q.nack(q.dequeue())
        with pytest.raises(NoItemsWaiting):
            q.try_dequeue()
        clock.advance(5)
        q.nack(q.try_dequeue())
        growing = AckOpts(retry_backoff=Backoff(first=1, jitter=0))
        q = hr.ack_queue("jobs", growing)
        clock.advance(5)
        q.nack(q.try_dequeue())
        clock.advance(3.999)
        with pytest.raises(NoItemsWaiting):
            q.try_dequeue()
        clock.advance(0.001)
        q.try_dequeue()

    def test_failure_callbacks(self, hr: Any) -> None:
        """All of them, in order, after the last nack; what they raise is raised."""
        q = hr.ack_queue("jobs", AckOpts(max_retries=1))
        heard: list[Any] = []

        def refuse(message: Any, error: str) -> None:
            raise ValueError(error)

        end = q.on_failure(refuse)
        q.on_failure(lambda message, error: heard.append((message.item, error)))
        q.enqueue("x")
        assert q.nack(q.dequeue(), "first")
        assert heard == []
        with pytest.raises(ExceptionGroup) as caught:
            q.nack(q.dequeue(), ValueError("last"))
        assert [str(error) for error in caught.value.exceptions] == ["last"]
        assert heard == [("x", "last")]
        end()
        q.enqueue("y")
        q.nack(q.dequeue())
        assert q.try_nack(q.dequeue()) is False
        assert heard[1:] == [("y", "")]
        assert q.queue.dead.count() == 2

    def test_dead_letter_queues(self, hr: Any, connect: Connect) -> None:
        """Several, each with a copy; chains; and a setting that all clients share."""
        q = hr.ack_queue("jobs", ONCE)
        late, last = hr.ack_queue("late", ONCE), hr.simple_queue("last")
        q.register_dead_letter_queue(late)
        q.register_dead_letter_queue("copies")
        q.register_dead_letter_queue("copies")
        late.register_dead_letter_queue(last)
        q.enqueue({"n": 1})
        other = connect().ack_queue("jobs", ONCE)
        message = other.dequeue()
        assert other.nack(message, "bad") is False
        assert q.queue.dead.count() == 0
        copy = hr.simple_queue("copies").dequeue()
        assert (copy.item, copy.headers["headrace-dead-queue"]) == ({"n": 1}, "jobs")
        assert copy.headers["headrace-dead-id"] == str(message.id)
        letter = late.dequeue()
        late.nack(letter)
        assert last.dequeue().headers["headrace-dead-queue"] == "late"

    @pytest.mark.parametrize(
        "opts",
        [
            {"ack_timeout": 0},
            {"ack_timeout": -1},
            {"max_retries": -2},
            {"max_retries": 1.5},
            {"retry_backoff": -1},
            {"processed": "burn"},
        ],
        ids=str,
    )
    def test_wrong_options_are_refused(self, hr: Any, opts: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.ack_queue("jobs", AckOpts(**opts))
        assert hr.queues() == []

    def test_more_wrong_options(self, hr: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.unique_queue("jobs", unique="sometimes")
        with pytest.raises(InvalidOption):
            hr.ack_queue("jobs", {"max_retries": 1})
        q = hr.simple_queue("jobs")
        for wrong in (-1, "x"):
            with pytest.raises(InvalidOption):
                q.dequeue(wait=wrong)
