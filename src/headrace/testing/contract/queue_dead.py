"""Dead letters: to look at, to run again, to remove."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Filter
from headrace.errors import ItemActive, SubjectTaken, UnknownItem
from headrace.model.failures import Failure
from headrace.model.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    ALL,
    Desk,
    Queue,
    QueueContract,
    doc,
    ids,
    json,
    payload,
    payloads,
)

EVERYTHING = Filter()


def bury(q: Queue, *documents: Any, failure: Any = None) -> list[int]:
    """Push documents and kill them; their ids."""
    made = q.push(*documents).ids
    for item in q.claim(ALL):
        assert item.id in made
        q.settle(item, "kill", failure=failure)
    return list(made)


class DeadItemContract(QueueContract):
    """What died is kept until somebody deals with it."""

    def test_the_dead_are_listed_by_id(self, desk: Desk, q: Queue) -> None:
        """In pages; those who live or are completed are not among them."""
        q.create(keep="all")
        a, b, c = bury(q, 1, 2, 3)
        q.push(4, 5)
        q.end("complete")
        assert ids(desk.dead_items("q", EVERYTHING, 0, 2)) == [a, b]
        assert ids(desk.dead_items("q", EVERYTHING, b, 2)) == [c]
        assert desk.dead_items("q", EVERYTHING, c, 2) == []

    def test_a_filter_says_which(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """By id, likeness, subject, cause and time of death, which is excluded itself."""
        start = clock.now
        [a] = bury(q, doc(1, subject="s"), failure="no 1")
        clock.advance(1)
        [b] = bury(q, doc(2, subject="s"), failure="no 2")
        clock.advance(1)
        [c] = q.push(doc(3, overrides={"max_attempts": 1})).ids
        q.end("reject", failure="other")
        alike = desk.dead_items("q", EVERYTHING, 0, 9)[0].fingerprint
        for given, expected in (
            (Filter(ids=(c, a, 10**9)), [a, c]),
            (Filter(ids=()), []),
            (Filter(fingerprint=alike), [a, b]),
            (Filter(fingerprint="unheard of"), []),
            (Filter(subject="s"), [a, b]),
            (Filter(cause="rejected"), [c]),
            (Filter(before=start + 1000), [a]),
            (Filter(after=start), [b, c]),
            (Filter(after=start, before=start + 2000), [b]),
            (Filter(subject="s", ids=(b, c)), [b]),
            (Filter(subject="s", cause="rejected"), []),
        ):
            assert ids(desk.dead_items("q", given, 0, 9)) == expected, given
            assert desk.count_dead("q", given) == len(expected), given

    def test_those_that_failed_alike_are_a_group(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """Numbers, ids and quoted values in a message do not make a difference."""
        start = clock.now
        [a] = bury(q, 1, failure=Failure(type="KeyError", message="no user 17"))
        clock.advance(1)
        bury(q, 2, failure=Failure(type="KeyError", message="no order 'x'"))
        clock.advance(1)
        [c] = bury(q, 3, failure=Failure(type="KeyError", message="no user 18"))
        users, orders = desk.dead_groups("q")
        assert (users.title, users.count, users.cause) == ("KeyError: no user …", 2, "killed")
        assert (users.first_at, users.last_at) == (start, start + 2000)
        assert (users.example, orders.count) == (c, 1)
        assert ids(desk.dead_items("q", Filter(fingerprint=users.fingerprint), 0, 9)) == [a, c]

    def test_those_that_died_without_an_error_are_a_group_by_cause(
        self, desk: Desk, q: Queue
    ) -> None:
        """So that every dead item belongs to a group."""
        bury(q, 1, 2)
        q.push(doc(3, overrides={"max_attempts": 1}))
        q.end("reject")
        groups = desk.dead_groups("q")
        assert [(group.title, group.count) for group in groups] == [("killed", 2), ("rejected", 1)]
        assert {dead.fingerprint for dead in q.dead()} == {group.fingerprint for group in groups}

    def test_groups_of_one_size_are_in_the_order_of_their_fingerprints(
        self, desk: Desk, q: Queue
    ) -> None:
        """Any order would do, but it must not change from call to call."""
        for word in ("a", "b", "c", "d"):
            bury(q, word, failure=word)
        fingerprints = [group.fingerprint for group in desk.dead_groups("q")]
        assert fingerprints == sorted(fingerprints)
        assert len(fingerprints) == 4

    def test_redriven_items_run_now(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """The same items, behind all others, with all their attempts before them."""
        q.create(dead_threshold=2)
        [a] = q.push(doc("dead", subject="s")).ids
        q.end("reject", delay_ms=0)
        q.end("reject")
        q.push("other")
        clock.advance(5)
        assert desk.redrive("q", EVERYTHING, None, 10) == 1
        item = q.item(a)
        assert (item.state, item.attempts, item.crashes) == (State.PENDING, 0, 0)
        assert (item.next_execution, item.waiting_since) == (clock.now, clock.now)
        assert q.dead() == []
        assert q.claim_all() == ["other", "dead"]
        assert q.counts().entered == 2

    def test_a_redriven_item_dies_after_as_many_attempts_as_before(
        self, desk: Desk, q: Queue
    ) -> None:
        """Its past is past."""
        q.create(dead_threshold=2)
        q.fill(1)
        for _ in range(2):
            states = [q.settle(q.claim_one(), "reject", delay_ms=0).state for _ in range(2)]
            assert states == ["pending", "dead"]
            desk.redrive("q", EVERYTHING, None, 10)

    def test_items_can_be_redriven_to_another_queue(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """As new items with the same content; the queue is made if need be."""
        overrides = {"max_attempts": 7}
        document = doc(1, subject="s", priority=2, headers={"h": "1"}, overrides=overrides)
        [id] = bury(q, document)
        clock.advance(1)
        assert desk.redrive("q", EVERYTHING, "r", 10) == 1
        assert q.is_gone(id)
        r = Queue(desk, "r")
        item = r.claim_one()
        assert (payload(item), item.subject, item.priority) == (1, "s", 2)
        assert (item.headers, item.overrides) == (json({"h": "1"}), json(overrides))
        assert (item.attempts, item.iterations, item.created_at) == (1, 0, clock.now)
        assert (q.counts().total, r.counts().entered) == (0, 1)

    def test_to_its_own_queue_by_name_is_in_its_own_queue(self, desk: Desk, q: Queue) -> None:
        """The id stays."""
        [id] = bury(q, 1)
        assert desk.redrive("q", EVERYTHING, "q", 10) == 1
        assert q.item(id).state == State.PENDING

    def test_one_whose_subject_is_in_use_stays(self, desk: Desk, q: Queue) -> None:
        """In its own queue or in the other; it does not count against the limit."""
        a, b = bury(q, doc(1, subject="s"), doc(2))
        q.push(doc(3, subject="s"))
        assert desk.redrive("q", EVERYTHING, None, 1) == 1
        assert ids(q.dead()) == [a]
        Queue(desk, "r").push(doc(4, subject="s"))
        assert desk.redrive("q", EVERYTHING, "r", 1) == 0
        assert ids(q.dead()) == [a]
        assert q.item(b).state == State.PENDING

    def test_of_two_with_one_subject_the_first_is_redriven(self, desk: Desk, q: Queue) -> None:
        """The other waits for its end."""
        [a] = bury(q, doc(1, subject="s"))
        [b] = bury(q, doc(2, subject="s"))
        assert desk.redrive("q", EVERYTHING, None, 10) == 1
        assert ids(q.dead()) == [b]
        q.end("complete")
        assert desk.redrive("q", EVERYTHING, None, 10) == 1
        assert q.is_gone(a)

    def test_uniqueness_does_not_hinder_a_redrive(self, desk: Desk, q: Queue) -> None:
        """The subject is its own."""
        q.create(unique="forever")
        bury(q, doc(1, subject="s"))
        assert desk.redrive("q", EVERYTHING, None, 10) == 1
        assert q.claim_all() == [1]

    def test_a_redrive_has_a_filter_and_a_limit(self, desk: Desk, q: Queue) -> None:
        """By id, so that one can go on."""
        everything = bury(q, *range(5))
        assert desk.redrive("q", Filter(ids=tuple(everything[1:])), None, 2) == 2
        assert ids(q.dead()) == [everything[0], *everything[3:]]
        assert desk.redrive("q", EVERYTHING, None, 10) == 3
        assert desk.redrive("q", EVERYTHING, None, 10) == 0

    def test_a_redrive_wakes_who_waits(self, desk: Desk, q: Queue) -> None:
        """In the queue in which the items run."""
        bury(q, 1)
        waiter = desk.store.waiter("queue/r")
        try:
            desk.redrive("q", EVERYTHING, "r", 10)
            assert desk.is_woken(waiter)
        finally:
            waiter.close()

    def test_the_dead_can_be_removed(self, desk: Desk, q: Queue) -> None:
        """Those that match, by id, as many as asked for."""
        a, b, c, d = bury(q, 1, 2, 3, 4)
        assert desk.purge_dead("q", Filter(ids=(b, c, d)), 2) == 2
        assert ids(q.dead()) == [a, d]
        assert desk.purge_dead("q", EVERYTHING, 10) == 2
        assert desk.purge_dead("q", EVERYTHING, 10) == 0
        assert q.counts().total == 0

    @pytest.mark.parametrize("kind", ["kill", "complete"])
    def test_an_ended_item_can_be_retried(self, desk: Desk, q: Queue, kind: str) -> None:
        """Dead or completed, as long as it is kept; its id stays."""
        q.create(keep="all")
        [id] = q.fill(1)
        q.end(kind)
        item = desk.retry_item("q", id)
        assert (item.id, item.state, item.attempts) == (id, State.PENDING, 0)
        assert q.claim_all() == [0]
        assert (q.dead(), q.in_state(State.COMPLETED)) == ([], [])

    def test_a_waiting_item_can_be_told_to_run_now(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """One that is in line already goes to its end."""
        [a] = q.push(doc("late", delay=60_000)).ids
        b, _ = q.push("b", "c").ids
        assert desk.retry_item("q", a).next_execution == clock.now
        desk.retry_item("q", b)
        assert q.claim_all() == ["c", "late", "b"]

    def test_not_every_item_can_be_retried(self, desk: Desk, q: Queue) -> None:
        """Not one in flight, not one whose subject another has, not one that is gone."""
        [a] = bury(q, doc(1, subject="s"))
        [b] = q.push(doc(2, subject="s")).ids
        with pytest.raises(SubjectTaken) as caught:
            desk.retry_item("q", a)
        assert (caught.value.queue, caught.value.subject) == ("q", "s")
        q.claim_one()
        with pytest.raises(ItemActive):
            desk.retry_item("q", b)
        with pytest.raises(UnknownItem):
            desk.retry_item("q", 10**9)
        assert ids(q.dead()) == [a]

    def test_a_dead_item_can_be_mended_and_redriven(self, desk: Desk, q: Queue) -> None:
        """It stays dead until it is redriven."""
        [id] = bury(q, {"amount": "x"})
        edited = desk.edit_item("q", id, (json({"amount": 7}), 0), 5, None)
        assert (payload(edited), edited.item.priority, edited.cause) == ({"amount": 7}, 5, "killed")
        assert q.take().state == "empty"
        assert payloads(q.dead()) == [{"amount": 7}]
        desk.redrive("q", EVERYTHING, None, 1)
        assert q.claim_all() == [{"amount": 7}]
