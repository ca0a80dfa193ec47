"""Push, claim and settle through the public client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.core.documents import Doc
from headrace.errors import (
    BodyTooLarge,
    HeadraceError,
    InvalidBody,
    InvalidInput,
    InvalidOption,
    InvalidQueueName,
    ItemLost,
    KeyReused,
    NotConnected,
    UnknownQueue,
)
from headrace.model.query.typed_values import ANY
from headrace.model.queues.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, needs

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_896_091_200_000

QUEUE_NAMES = ["git commits", "shop.mail", "a:b, c|d*", "größe ☃", "x" * 200]

WRONG_PUSHES: dict[str, tuple[type[HeadraceError], dict[str, Any]]] = {
    "a set": (InvalidBody, {"payload": {"a": {1}}}),
    "not a number": (InvalidBody, {"payload": float("nan")}),
    "keys that are not text": (InvalidBody, {"payload": {1: 2}}),
    "half a character": (InvalidBody, {"payload": "\ud800"}),
    "too large": (BodyTooLarge, {"payload": "x" * 2_000_000}),
    "too many bytes": (BodyTooLarge, {"payload": b"x" * 2_000_000}),
    "no subject": (InvalidBody, {"subject": ""}),
    "a long subject": (InvalidBody, {"subject": "x" * 501}),
    "a line feed in the subject": (InvalidBody, {"subject": "a\nb"}),
    "NUL in the subject": (InvalidBody, {"subject": "a\0"}),
    "a number as subject": (InvalidBody, {"subject": 5}),
    "numbers in headers": (InvalidBody, {"headers": {"a": 1}}),
    "a text as priority": (InvalidOption, {"priority": "high"}),
    "a truth as priority": (InvalidOption, {"priority": True}),
    "a priority out of range": (InvalidOption, {"priority": 2**31}),
    "at and delay": (InvalidOption, {"at": NOON, "delay": 1}),
    "a time without a zone": (InvalidOption, {"at": datetime(2030, 1, 1)}),  # noqa: DTZ001  # the case
    "a time that is none": (InvalidOption, {"at": "tomorrow"}),
    "a negative delay": (InvalidOption, {"delay": -1}),
    "an endless delay": (InvalidOption, {"delay": float("inf")}),
    "a delay without a unit": (InvalidOption, {"delay": "5"}),
    "a delay in moons": (InvalidOption, {"delay": "5 moons"}),
    "no attempts": (InvalidOption, {"max_attempts": 0}),
    "a wrong place": (InvalidOption, {"retry_position": "middle"}),
    "updateable as text": (InvalidOption, {"updateable": "no"}),
    "no time": (InvalidOption, {"lease": 0}),
    "an empty key": (InvalidOption, {"key": ""}),
}


class QueueClientContract(Contract):
    """The queue ``q`` exists and is empty."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("q")

    def test_a_push_creates_the_queue_and_the_item(self, hr: Any, clock: FakeClock) -> None:
        result = hr.push("new", {"to": "ann"}, subject="ann", priority=3, headers={"h": "1"})
        assert (result.pushed, result.updated, result.skipped) == (1, 0, 0)
        [item] = hr.queue("new").claim()
        assert item.id == result.id == result.ids[0]
        assert (item.queue, item.subject, item.payload) == ("new", "ann", {"to": "ann"})
        assert (item.priority, item.headers) == (3, {"h": "1"})
        assert (item.attempts, item.crashes, item.times_settled) == (1, 0, 0)
        assert item.created_at == item.due_at == item.claimed_at == at(clock)
        assert item.deadline == at(clock) + timedelta(seconds=300)
        assert (item.last_settled_at, item.last_error, item.ended_at) == (None, None, None)
        assert item.state == State.ACTIVE
        assert item.token

    @pytest.mark.parametrize(
        "payload",
        [None, 0, 1.5, "text", "", [], {}, [1, {"ü": None}], b"", b"\0\xff", True],
        ids=repr,
    )
    def test_a_payload_comes_back_as_it_was(self, q: Any, payload: Any) -> None:
        q.push(payload)
        [item] = q.claim()
        assert item.payload == payload
        assert type(item.payload) is type(payload)

    def test_documents_and_their_results(self, q: Any) -> None:
        """Bare payloads use the options of the call. Documents have their own."""
        result = q.push_many([1, Doc(2, subject="two"), {"n": 3}, b"4"], priority=7)
        assert (result.pushed, len(set(result.ids))) == (4, 4)
        again = q.push_many([Doc(9, subject="two"), Doc(5, subject="five")])
        assert (again.pushed, again.updated, again.skipped) == (1, 0, 1)
        assert [(r.index, r.outcome, r.reason) for r in again.results] == [
            (0, "skipped", "exists"),
            (1, "pushed", None),
        ]
        assert again.results[0].id == result.ids[1]
        found = [(item.payload, item.priority) for item in q.claim(10)]
        assert found == [(1, 7), ({"n": 3}, 7), (b"4", 7), (2, 0), (5, 0)]

    def test_a_push_of_no_documents(self, q: Any) -> None:
        result = q.push_many([])
        assert (result.pushed, result.id, result.results) == (0, None, [])

    @pytest.mark.parametrize("delay", ["-1ms", "-1 year", "- 3m"])
    def test_a_delay_into_the_past_means_now(self, q: Any, delay: str) -> None:
        """At a push and at a reschedule."""
        q.push_many([Doc(1, delay=delay)])
        [item] = q.claim()
        item.reschedule(delay=delay)
        q.push(2, delay=delay)
        assert [item.payload for item in q.claim(9)] == [1, 2]

    def test_a_year_has_365_days(self, q: Any, clock: FakeClock) -> None:
        q.push(1, delay="+1y")
        assert q.claim() == []
        clock.advance(365 * 24 * 3600)
        assert len(q.claim()) == 1

    @needs("limits")
    @pytest.mark.parametrize("name", QUEUE_NAMES)
    def test_names_may_have_spaces(self, hr: Any, connect: Connect, name: str) -> None:
        """Willow's own example is ``git commits``. Waiting claims are woken and limits apply."""
        q = hr.queue(name)
        hr.limits.create({"os": ANY}, 1, queue=name)
        other = connect()
        timer = threading.Timer(0.05, lambda: other.push(name, 1, channel={"os": "mac"}))
        timer.start()
        [item] = q.claim(wait=20)
        timer.join()
        q.push(2, channel={"os": "mac"})
        assert q.claim() == []
        item.complete()
        assert [item.payload for item in q.claim()] == [2]
        assert [info.name for info in hr.queues.list()] == [name]

    @pytest.mark.parametrize(
        "name",
        ["", " a", "a ", "a/b", "a\nb", "a\x1eb", "a\x00", "*", ".", "..", "x" * 201, "\ud800", 5],
        ids=repr,
    )
    def test_names_that_are_refused(self, hr: Any, name: Any) -> None:
        with pytest.raises(InvalidQueueName):
            hr.push(name, 1)
        assert hr.queues.list() == []

    def test_upsert_replaces_a_pending_item(self, q: Any) -> None:
        first = q.push("old", subject="s", delay=60)
        result = q.upsert("new", subject="s", priority=5, headers={"v": "2"})
        assert (result.pushed, result.updated, result.skipped) == (0, 1, 0)
        assert result.id == first.id
        assert q.upsert_many([Doc("other", subject="o"), Doc("newer", subject="s")]).updated == 1
        [item, other] = q.claim(2)
        assert (item.payload, item.priority, item.headers) == ("newer", 0, {})
        assert other.payload == "other"

    def test_upsert_while_active(self, q: Any) -> None:
        q.push("a", subject="s")
        [item] = q.claim()
        skipped = q.upsert("b", subject="s")
        assert (skipped.skipped, skipped.results[0].reason) == (1, "active")
        kept = q.upsert("c", subject="s", while_active="next")
        assert (kept.updated, kept.results[0].outcome) == (1, "next")
        item.complete()
        [after] = q.claim()
        assert after.payload == "c"

    def test_a_debounced_upsert_waits_for_a_pause(self, q: Any, clock: FakeClock) -> None:
        for n in range(3):
            q.upsert(n, subject="s", debounce="10s", max_wait=timedelta(seconds=15))
            clock.advance(6)
        assert q.item("s").due_at == at(clock) - timedelta(seconds=3)
        assert [item.payload for item in q.claim(5)] == [2]

    @pytest.mark.parametrize(
        "options",
        [
            {"max_wait": 5},
            {"debounce": 0},
            {"debounce": 5, "delay": 1},
            {"debounce": 5, "at": NOON},
            {"while_active": "later"},
        ],
        ids=str,
    )
    def test_a_wrong_upsert_is_refused(self, q: Any, options: Any) -> None:
        with pytest.raises(InvalidOption):
            q.upsert(1, subject="s", **options)
        assert q.stats().total == 0

    @pytest.mark.parametrize("wrong", WRONG_PUSHES)
    def test_a_wrong_push_is_refused(self, hr: Any, wrong: str) -> None:
        """The error names the place or the option. Nothing is written."""
        error, given = WRONG_PUSHES[wrong]
        given = {"payload": {}, **given}
        for push in (hr.push, hr.upsert):
            with pytest.raises(error) as caught:
                push("q", **given)
            details = caught.value.details
            assert "path" in details or "option" in details
        assert hr.queues.list() == []

    def test_the_place_of_a_wrong_document(self, hr: Any) -> None:
        with pytest.raises(InvalidBody) as caught:
            hr.push_many("q", [{"a": 1}, "fine", {"b": [0, object()]}])
        assert caught.value.path == "$[2].b[1]"
        with pytest.raises(InvalidBody):
            hr.push_many("q", {"a": 1})
        with pytest.raises(InvalidQueueName):
            hr.push("no/good", 1)
        with pytest.raises(TypeError):
            hr.push("q", 1, prio=5)
        assert hr.queues.list() == []

    def test_an_invalid_row_is_named(self, hr: Any) -> None:
        """The message and ``row`` count from 0, whatever is wrong with the row."""
        wrong = [
            {"b": {1}},
            b"x" * 2**21,
            Doc(1, priority="high"),  # type: ignore[arg-type]  # wrong on purpose
            Doc(1, subject=""),
            Doc(1, headers={"h": 1}),  # type: ignore[dict-item]  # likewise
            Doc(1, channel={"c": object()}),
            Doc(1, delay="soon"),
            Doc(1, at=0, delay=0),
            Doc(1, max_attempts=0),
        ]
        for push in (hr.push_many, hr.upsert_many):
            for one in wrong:
                with pytest.raises(InvalidInput, match="row 1: ") as caught:
                    push("q", [Doc(0, subject="a"), one])
                assert caught.value.row == 1
            with pytest.raises(InvalidInput, match="row 1: ") as caught:
                push("q", [{}, {"b": {1}}])
            assert caught.value.path == "$[1].b"
        assert hr.queues.list() == []

    @pytest.mark.parametrize("wait", [False, "long", -1])
    def test_a_wait_that_is_no_time_is_refused(self, q: Any, wait: Any) -> None:
        """Of claims and of pushes, also where nothing has to be waited for."""
        for use in (lambda: q.claim(wait=wait), lambda: q.push(1, wait=wait)):
            with pytest.raises(InvalidOption, match="wait is"):
                use()
        assert q.stats().pending == 0

    def test_a_push_with_a_key_is_applied_once(self, q: Any) -> None:
        first = q.push({"n": 1}, key="k", delay=5)
        assert q.push({"n": 1}, key="k", delay=5) == first
        for other in ({"payload": {"n": 2}, "delay": 5}, {"payload": {"n": 1}}):
            with pytest.raises(KeyReused):
                q.push(**other, key="k")
        assert q.stats().total == 1

    @pytest.mark.parametrize(
        "when",
        [NOON, NOON_MS, "2030-01-31T12:00:00Z", "2030-01-31T13:00:00+01:00"],
        ids=str,
    )
    def test_spellings_of_a_time(self, q: Any, when: Any) -> None:
        result = q.push(1, at=when)
        assert q.item(result.id).due_at == NOON

    @pytest.mark.parametrize(
        ("wait", "seconds"),
        [
            (5, 5),
            (0.25, 0.25),
            (timedelta(minutes=2), 120),
            ("+1s", 1),
            ("5m", 300),
            ("2 days", 172_800),
            ("1h 30m", 5400),
            ("1.5 Hours", 5400),
            ("250ms", 0.25),
            ("1w", 604_800),
        ],
    )
    def test_spellings_of_a_delay(
        self, q: Any, clock: FakeClock, wait: Any, seconds: float
    ) -> None:
        result = q.push(1, delay=wait)
        expected = at(clock) + timedelta(seconds=seconds)
        assert q.item(result.id).due_at == expected

    def test_a_claim_returns_due_items_in_order(self, q: Any, clock: FakeClock) -> None:
        q.push_many([Doc(n, priority=n % 3) for n in range(6)])
        q.push("later", delay=1)
        assert [item.payload for item in q.claim(4)] == [2, 5, 1, 4]
        assert [item.payload for item in q.claim(4)] == [0, 3]
        assert q.claim(4) == []
        clock.advance(1)
        assert [item.payload for item in q.claim(4)] == ["later"]

    def test_an_expired_lease_counts_a_crash(self, q: Any, clock: FakeClock) -> None:
        q.push(1)
        [lost] = q.claim(lease="2s")
        assert lost.deadline == at(clock) + timedelta(seconds=2)
        clock.advance(2)
        [item] = q.claim()
        assert (item.attempts, item.crashes) == (2, 1)
        assert item.last_error.type == "WorkerLost"
        with pytest.raises(ItemLost):
            lost.complete()
        item.complete()

    @pytest.mark.parametrize(
        "wrong", [{"count": 0}, {"count": -1}, {"lease": 0}, {"lease": -1}, {"wait": -1}], ids=str
    )
    def test_a_wrong_claim_is_refused(self, q: Any, wrong: Any) -> None:
        q.push(1)
        with pytest.raises(InvalidOption):
            q.claim(**wrong)
        assert q.stats().pending == 1

    def test_a_reference_does_not_create_the_queue(self, hr: Any) -> None:
        """The first push or claim does, with the stored defaults. All else is refused."""
        hr.queues.set_defaults(reject_delay="1m")
        queue = hr.queue("new")
        for use in (queue.info, queue.stats, queue.pause, queue.drop, queue.items, queue.errors):
            with pytest.raises(UnknownQueue):
                use()
        assert hr.queues.list() == []
        assert queue.claim() == []
        hr.queue("pushed").push(1)
        for name in ("new", "pushed"):
            assert hr.queue(name).info().settings.reject_delay == 60

    def test_a_dropped_queue_is_created_again(self, hr: Any, q: Any) -> None:
        q.push(1)
        q.drop()
        with pytest.raises(UnknownQueue):
            q.stats()
        assert q.claim() == []
        assert q.stats().total == 0

    @pytest.mark.parametrize("name", ["", "no/good", None, 5, ["q"]], ids=repr)
    def test_a_reference_to_an_impossible_name_is_refused(self, hr: Any, name: Any) -> None:
        with pytest.raises(InvalidQueueName):
            hr.queues.create(name)

    def test_a_waiting_claim_is_woken(self, q: Any, connect: Connect) -> None:
        other = connect()
        with soon(lambda: other.push("q", "hello")):
            [item] = q.claim(wait=20)
        assert item.payload == "hello"

    def test_a_waiting_claim_gets_items_that_become_due(self, q: Any, clock: FakeClock) -> None:
        q.push("later", delay=60)
        with soon(lambda: clock.advance(60)):
            [item] = q.claim(wait=20)
        assert item.payload == "later"

    def test_a_waiting_claim_gets_items_after_a_resume(self, q: Any, connect: Connect) -> None:
        other = connect()
        q.push("held")
        q.pause()
        with soon(lambda: other.queue("q").resume()):
            assert len(q.claim(wait=20)) == 1

    def test_a_wait_times_out(self, q: Any) -> None:
        assert q.claim(wait=0.02) == []

    def test_closing_a_client_ends_its_waiting_claims(self, hr: Any, q: Any) -> None:
        hr.close()
        for use in (lambda: hr.push("q", 1), q.claim, lambda: q.claim(wait=None), q.stats):
            with pytest.raises(NotConnected):
                use()


def at(clock: FakeClock) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=clock.now)


@contextmanager
def soon(act: Any) -> Iterator[None]:
    """Do something in another thread while this one waits."""
    timer = threading.Timer(0.05, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()
