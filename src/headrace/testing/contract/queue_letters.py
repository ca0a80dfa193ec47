"""Dead letters as users handle them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.errors import InvalidOption, InvalidQueueName, UnknownItem
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract
from headrace.testing.contract.queue_clients import at


class DeadLetterContract(Contract):
    """A queue ``q`` in which every item may fail once."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queue("q", dead_threshold=1)

    def kill(self, q: Any, *errors: Any, **fields: Any) -> list[int]:
        """Push one item per error, and let each fail with it; their ids."""
        ids = []
        for error in errors:
            q.push({"error": str(error)}, **fields)
            [item] = q.claim()
            item.reject(error)
            ids.append(item.id)
        return ids

    def test_looking_at_them(self, q: Any, clock: FakeClock) -> None:
        ids = self.kill(q, ValueError("order 1"), ValueError("order 2"), "gone")
        assert q.dead.count() == 3
        assert [item.id for item in q.dead.list()] == ids
        assert [item.id for item in q.dead.list(after=ids[0], limit=1)] == [ids[1]]
        largest, smallest = q.dead.groups()
        assert (largest.count, largest.title, largest.example) == (2, "ValueError: order …", ids[1])
        assert (smallest.count, smallest.first, smallest.last) == (1, at(clock), at(clock))
        alike = q.dead.list(fingerprint=largest.fingerprint)
        assert [item.id for item in alike] == ids[:2]
        shown = q.dead.show(ids[0])
        assert (shown.payload, shown.cause) == ({"error": "order 1"}, "rejected")
        assert (shown.ended_at, shown.title) == (at(clock), "ValueError: order …")
        assert shown.last_error.message == "order 1"
        assert "ValueError" in shown.last_error.traceback
        q.push(1, subject="live")
        for wrong in (10**9, "none", "live"):
            with pytest.raises(UnknownItem):
                q.dead.show(wrong)

    def test_which_of_them(self, q: Any, clock: FakeClock) -> None:
        [first] = self.kill(q, "a", subject="s")
        clock.advance(10)
        [second] = self.kill(q, "b")
        q.push(1)
        q.claim()[0].kill()
        assert q.dead.count(ids=[first, second, 10**9]) == 2
        assert q.dead.count(ids=[]) == 0
        assert q.dead.count(subject="s") == 1
        assert q.dead.count(cause="killed") == 1
        assert q.dead.count(died_before=at(clock)) == 1
        assert q.dead.count(died_after=clock.now - 1) == 2
        for wrong in ({"cause": "age"}, {"ids": 5}, {"ids": ["x"]}, {"died_after": "noon"}):
            with pytest.raises(InvalidOption):
                q.dead.count(**wrong)

    def test_one_is_edited_and_run_again(self, q: Any) -> None:
        [id] = self.kill(q, "no")
        q.dead.edit(id, payload={"fixed": True}, priority=9)
        assert q.dead.redrive(ids=[id]) == 1
        [item] = q.claim()
        assert (item.id, item.payload, item.priority, item.attempts) == (
            id,
            {"fixed": True},
            9,
            1,
        )
        assert q.dead.count() == 0

    def test_redriving_tells_how_far_it_is(self, q: Any) -> None:
        self.kill(q, *"abcde")
        told: list[tuple[int, int]] = []
        done = q.dead.redrive(
            rate=1000.0, limit=3, progress=lambda done, total: told.append((done, total))
        )
        assert (done, q.stats().pending, q.dead.count()) == (3, 3, 2)
        assert told[-1] == (3, 3)
        assert q.dead.redrive() == 2

    def test_redriving_at_a_rate(self, q: Any) -> None:
        self.kill(q, *"abcd")
        start = time.monotonic()
        assert q.dead.redrive(rate=20) == 4
        assert 0.15 <= time.monotonic() - start < 5
        for wrong in (0, -1, "fast", float("nan"), True):
            with pytest.raises(InvalidOption):
                q.dead.redrive(rate=wrong)
        with pytest.raises(InvalidOption):
            q.dead.redrive(limit=0)

    def test_a_taken_subject_stays(self, q: Any) -> None:
        self.kill(q, "a", "b", subject="s")
        assert q.dead.redrive() == 1
        assert q.dead.count() == 1

    def test_those_that_die_again_are_for_another_time(self, q: Any, clock: FakeClock) -> None:
        """Else a redrive of what always fails would never end."""
        self.kill(q, "a", "b")
        clock.advance(1)

        def fail_again(done: int, total: int) -> None:
            clock.advance(1)

        assert q.dead.redrive(progress=fail_again) == 2

    def test_moving(self, hr: Any, q: Any) -> None:
        """Every one is in one of the queues; subjects and headers go along."""
        hr.push_many("q", [Doc(n, subject=f"s{n}", headers={"n": str(n)}) for n in range(3)])
        for item in q.claim(3):
            item.reject("no")
        assert q.dead.move("late", limit=2) == 2
        assert q.dead.redrive(to="later") == 1
        late = hr.queue("late").claim(5)
        assert [(item.subject, item.payload, item.headers) for item in late] == [
            ("s0", 0, {"n": "0"}),
            ("s1", 1, {"n": "1"}),
        ]
        assert (q.stats().total, hr.queue("later").stats().pending) == (0, 1)
        with pytest.raises(InvalidQueueName):
            q.dead.move("no good")

    def test_purging(self, q: Any) -> None:
        ids = self.kill(q, *"abc")
        assert q.dead.purge(ids=ids[:1]) == 1
        assert q.dead.purge(limit=1) == 1
        assert q.dead.purge() == 1
        assert q.dead.purge() == 0
