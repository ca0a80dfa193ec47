"""Dead letters through the public client."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.errors import InvalidOption, InvalidQueueName, UnknownItem
from headrace.model.queues.fingerprint import digest
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract
from headrace.testing.contract.queue_clients import at


class DeadLetterContract(Contract):
    """Every item of the queue ``q`` may fail once."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("q", max_attempts=1, exist_ok=True)

    def kill(self, q: Any, *errors: Any, **fields: Any) -> list[int]:
        """Push one item per error and let each fail with it. Return their ids."""
        ids = []
        for error in errors:
            q.push({"error": str(error)}, **fields)
            [item] = q.claim()
            item.reject(error)
            ids.append(item.id)
        return ids

    def test_dead_letters_are_listed_and_grouped(self, q: Any, clock: FakeClock) -> None:
        ids = self.kill(q, ValueError("order 1"), ValueError("order 2"), "gone")
        assert q.dead.count() == 3
        assert [item.id for item in q.dead.list()] == ids
        assert [item.id for item in q.dead.list(after=ids[0], limit=1)] == [ids[1]]
        largest, smallest = q.dead.groups()
        assert (largest.count, largest.title, largest.example) == (2, "ValueError: order …", ids[1])
        assert (smallest.count, smallest.first, smallest.last) == (1, at(clock), at(clock))
        alike = q.dead.list(fingerprint=largest.fingerprint)
        assert [item.id for item in alike] == ids[:2]
        shown = q.dead.get(ids[0])
        assert (shown.payload, shown.cause) == ({"error": "order 1"}, "rejected")
        assert (shown.ended_at, shown.title) == (at(clock), "ValueError: order …")
        assert shown.last_error.message == "order 1"
        assert "ValueError" in shown.last_error.traceback
        q.push(1, subject="live")
        for wrong in (10**9, "none"):
            with pytest.raises(UnknownItem, match="has no item"):
                q.dead.get(wrong)
        with pytest.raises(UnknownItem, match="item 'live' of queue 'q' is pending, not dead"):
            q.dead.get("live")

    def test_dead_letters_are_filtered(self, q: Any, clock: FakeClock) -> None:
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

    def test_an_unknown_filter_is_named_with_the_method(self, q: Any) -> None:
        for method in ("list", "count", "redrive", "purge"):
            with pytest.raises(
                TypeError, match=rf"dead\.{method}\(\) has no filter 'id': use ids, "
            ):
                getattr(q.dead, method)(id=7)
        with pytest.raises(TypeError, match=r"dead\.move\(\) has no filter 'queue'"):
            q.dead.move("r", queue="q")

    def test_a_dead_letter_is_edited_and_redriven(self, q: Any) -> None:
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

    def test_redriving_reports_its_progress(self, q: Any) -> None:
        self.kill(q, *"abcde")
        progress: list[tuple[int, int]] = []
        done = q.dead.redrive(
            rate=1000.0, limit=3, progress=lambda done, total: progress.append((done, total))
        )
        assert (done, q.stats().pending, q.dead.count()) == (3, 3, 2)
        assert progress[-1] == (3, 3)
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

    def test_a_dead_letter_whose_subject_is_in_use_stays(self, q: Any) -> None:
        self.kill(q, "a", "b", subject="s")
        assert q.dead.redrive() == 1
        assert q.dead.count() == 1

    def test_a_redrive_ignores_items_that_die_again(self, q: Any, clock: FakeClock) -> None:
        """Otherwise a redrive of items that always fail would never end."""
        self.kill(q, "a", "b")
        clock.advance(1)

        def fail_again(done: int, total: int) -> None:
            clock.advance(1)

        assert q.dead.redrive(progress=fail_again) == 2

    def test_dead_letters_are_moved(self, hr: Any, q: Any) -> None:
        """Each is in exactly one of the queues. Subjects and headers are kept."""
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
            q.dead.move("no/good")

    def test_dead_letters_are_purged(self, q: Any) -> None:
        ids = self.kill(q, *"abc")
        assert q.dead.purge(ids=ids[:1]) == 1
        assert q.dead.purge(limit=1) == 1
        assert q.dead.purge() == 1
        assert q.dead.purge() == 0

    @pytest.mark.parametrize("subject", [None, digest], ids=["without subjects", "with subjects"])
    def test_equal_content_is_copied_once_to_a_queue_of_unique_content(
        self, hr: Any, q: Any, subject: Any
    ) -> None:
        """Once while the first copy is live, in any order of keys, however often it fails again."""
        letters = hr.queues.create("letters", unique_content=True)
        q.update(dead_to="letters")

        def fail(content: Any) -> None:
            q.push(content, subject=subject and subject(content))
            q.claim()[0].reject()

        for content in ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, b"x", b"x", "x"):
            fail(content)
        assert letters.push(b"x", subject=digest(b"x")).skipped == 1
        copies = letters.claim(9)
        assert [copy.payload for copy in copies] == [{"a": 1, "b": [2]}, b"x", "x"]
        fail("x")
        assert letters.claim() == []
        letters.complete(copies)
        fail("x")
        assert [copy.payload for copy in letters.claim()] == ["x"]

    def test_items_moved_to_a_queue_of_unique_content_stay_unique(self, hr: Any, q: Any) -> None:
        """Dead letters that equal an item of that queue stay where they are."""
        target = hr.queues.create("target", unique_content=True)
        for content in ("x", "y", "x"):
            q.push(content)
            q.claim()[0].reject()
        target.push("y", subject=digest("y"))
        assert q.dead.move("target") == 1
        assert [letter.payload for letter in q.dead.list()] == ["y", "x"]
        assert [item.payload for item in target.claim(9)] == ["y", "x"]
