"""Dead items: list, retry, delete."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.contract.items import ItemFilter
from headrace.errors import ItemActive, SubjectTaken, UnknownItem
from headrace.model.failures import Failure
from headrace.model.query.key_values import KeyValues
from headrace.model.queues.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    ALL,
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    json,
    payload,
    payloads,
)

EVERYTHING = ItemFilter()
CHANNEL = KeyValues.of({"name": "a"}).form


def bury(q: Queue, *documents: Any, failure: Any = None) -> list[int]:
    """Push documents and kill them. Return their ids."""
    made = q.push(*documents).ids
    for item in q.claim(ALL):
        assert item.id in made
        q.settle(item, "kill", failure=failure)
    return list(made)


class DeadItemContract(QueueContract):
    """A dead item is kept until a caller deals with it."""

    def test_dead_items_are_listed_by_id(self, ops: StoreOps, q: Queue) -> None:
        """In pages. Live and completed items are not included."""
        q.create(keep="all")
        a, b, c = bury(q, 1, 2, 3)
        q.push(4, 5)
        q.end("complete")
        assert ids(ops.queues.dead_items("q", EVERYTHING, 0, 2)) == [a, b]
        assert ids(ops.queues.dead_items("q", EVERYTHING, b, 2)) == [c]
        assert ops.queues.dead_items("q", EVERYTHING, c, 2) == []

    def test_dead_items_are_filtered(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """By id, fingerprint, subject, cause and time of death. The end of the time is
        exclusive."""
        start = clock.now
        [a] = bury(q, doc(1, subject="s"), failure="no 1")
        clock.advance(1)
        [b] = bury(q, doc(2, subject="s"), failure="no 2")
        clock.advance(1)
        [c] = q.push(doc(3, overrides={"max_attempts": 1})).ids
        q.end("reject", failure="other")
        alike = ops.queues.dead_items("q", EVERYTHING, 0, 9)[0].fingerprint
        for given, expected in (
            (ItemFilter(ids=(c, a, 10**9)), [a, c]),
            (ItemFilter(ids=()), []),
            (ItemFilter(fingerprint=alike), [a, b]),
            (ItemFilter(fingerprint="unheard of"), []),
            (ItemFilter(subject="s"), [a, b]),
            (ItemFilter(cause="rejected"), [c]),
            (ItemFilter(before=start + 1000), [a]),
            (ItemFilter(after=start), [b, c]),
            (ItemFilter(after=start, before=start + 2000), [b]),
            (ItemFilter(subject="s", ids=(b, c)), [b]),
            (ItemFilter(subject="s", cause="rejected"), []),
        ):
            assert ids(ops.queues.dead_items("q", given, 0, 9)) == expected, given
            assert ops.queues.count_dead("q", given) == len(expected), given

    def test_similar_errors_form_a_group(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """Numbers, ids and quoted values in a message make no difference."""
        start = clock.now
        [a] = bury(q, 1, failure=Failure(type="KeyError", message="no user 17"))
        clock.advance(1)
        bury(q, 2, failure=Failure(type="KeyError", message="no order 'x'"))
        clock.advance(1)
        [c] = bury(q, 3, failure=Failure(type="KeyError", message="no user 18"))
        users, orders = ops.queues.dead_groups("q")
        assert (users.title, users.count, users.cause) == ("KeyError: no user …", 2, "killed")
        assert (users.first_at, users.last_at) == (start, start + 2000)
        assert (users.example, orders.count) == (c, 1)
        assert ids(ops.queues.dead_items("q", ItemFilter(fingerprint=users.fingerprint), 0, 9)) == [
            a,
            c,
        ]

    def test_items_without_an_error_are_grouped_by_cause(self, ops: StoreOps, q: Queue) -> None:
        """Every dead item thus belongs to a group."""
        bury(q, 1, 2)
        q.push(doc(3, overrides={"max_attempts": 1}))
        q.end("reject")
        groups = ops.queues.dead_groups("q")
        assert [(group.title, group.count) for group in groups] == [("killed", 2), ("rejected", 1)]
        assert {dead.fingerprint for dead in q.dead()} == {group.fingerprint for group in groups}

    def test_groups_of_one_size_are_sorted_by_fingerprint(self, ops: StoreOps, q: Queue) -> None:
        """The order must not change from call to call."""
        for word in ("a", "b", "c", "d"):
            bury(q, word, failure=word)
        fingerprints = [group.fingerprint for group in ops.queues.dead_groups("q")]
        assert fingerprints == sorted(fingerprints)
        assert len(fingerprints) == 4

    def test_redriven_items_run_now(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """They are the same items, behind all others, with all their attempts."""
        q.create(max_attempts=2)
        [a] = q.push(doc("dead", subject="s")).ids
        q.end("reject", delay_ms=0)
        q.end("reject")
        q.push("other")
        clock.advance(5)
        assert ops.queues.redrive("q", EVERYTHING, None, 10) == 1
        item = q.item(a)
        assert (item.state, item.attempts, item.crashes) == (State.PENDING, 0, 0)
        assert (item.next_execution, item.waiting_since) == (clock.now, clock.now)
        assert q.dead() == []
        assert q.claim_all() == ["other", "dead"]
        assert q.counts().entered == 2

    def test_a_redriven_item_dies_after_as_many_attempts_as_before(
        self, ops: StoreOps, q: Queue
    ) -> None:
        """Attempts before the redrive do not count."""
        q.create(max_attempts=2)
        q.fill(1)
        for _ in range(2):
            states = [q.settle(q.claim_one(), "reject", delay_ms=0).state for _ in range(2)]
            assert states == ["pending", "dead"]
            ops.queues.redrive("q", EVERYTHING, None, 10)

    def test_items_can_be_redriven_to_another_queue(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """They become new items with the same content. The queue is created if necessary."""
        overrides = {"max_attempts": 7}
        document = doc(1, subject="s", priority=2, headers={"h": "1"}, overrides=overrides)
        [id] = bury(q, document)
        clock.advance(1)
        assert ops.queues.redrive("q", EVERYTHING, "r", 10) == 1
        assert q.is_gone(id)
        r = Queue(ops, "r")
        item = r.claim_one()
        assert (payload(item), item.subject, item.priority) == (1, "s", 2)
        assert (item.headers, item.overrides) == (json({"h": "1"}), json(overrides))
        assert (item.attempts, item.iterations, item.created_at) == (1, 0, clock.now)
        assert (q.counts().total, r.counts().entered) == (0, 1)

    def test_redriving_to_the_same_queue_keeps_the_id(self, ops: StoreOps, q: Queue) -> None:
        [id] = bury(q, 1)
        assert ops.queues.redrive("q", EVERYTHING, "q", 10) == 1
        assert q.item(id).state == State.PENDING

    def test_an_item_whose_subject_is_in_use_stays_dead(self, ops: StoreOps, q: Queue) -> None:
        """This holds for both queues. Such an item does not count against the limit."""
        a, b = bury(q, doc(1, subject="s"), doc(2))
        q.push(doc(3, subject="s"))
        assert ops.queues.redrive("q", EVERYTHING, None, 1) == 1
        assert ids(q.dead()) == [a]
        Queue(ops, "r").push(doc(4, subject="s"))
        assert ops.queues.redrive("q", EVERYTHING, "r", 1) == 0
        assert ids(q.dead()) == [a]
        assert q.item(b).state == State.PENDING

    def test_of_two_items_with_one_subject_the_first_is_redriven(
        self, ops: StoreOps, q: Queue
    ) -> None:
        """The other stays dead until the first has ended."""
        [a] = bury(q, doc(1, subject="s"))
        [b] = bury(q, doc(2, subject="s"))
        assert ops.queues.redrive("q", EVERYTHING, None, 10) == 1
        assert ids(q.dead()) == [b]
        q.end("complete")
        assert ops.queues.redrive("q", EVERYTHING, None, 10) == 1
        assert q.is_gone(a)

    def test_uniqueness_does_not_hinder_a_redrive(self, ops: StoreOps, q: Queue) -> None:
        """The used subject is the item's own."""
        q.create(unique="forever")
        bury(q, doc(1, subject="s"))
        assert ops.queues.redrive("q", EVERYTHING, None, 10) == 1
        assert q.claim_all() == [1]

    def test_a_redrive_has_a_filter_and_a_limit(self, ops: StoreOps, q: Queue) -> None:
        """It proceeds by id, so that the next call can continue."""
        everything = bury(q, *range(5))
        assert ops.queues.redrive("q", ItemFilter(ids=tuple(everything[1:])), None, 2) == 2
        assert ids(q.dead()) == [everything[0], *everything[3:]]
        assert ops.queues.redrive("q", EVERYTHING, None, 10) == 3
        assert ops.queues.redrive("q", EVERYTHING, None, 10) == 0

    def test_a_redrive_wakes_waiters(self, ops: StoreOps, q: Queue) -> None:
        """Waiters for the queue in which the items run."""
        bury(q, 1)
        waiter = ops.store.waiter("queue/r")
        try:
            ops.queues.redrive("q", EVERYTHING, "r", 10)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()

    def test_dead_items_can_be_deleted(self, ops: StoreOps, q: Queue) -> None:
        """Those that match the filter, by id, up to the limit."""
        a, b, c, d = bury(q, 1, 2, 3, 4)
        assert ops.queues.purge_dead("q", ItemFilter(ids=(b, c, d)), 2) == 2
        assert ids(q.dead()) == [a, d]
        assert ops.queues.purge_dead("q", EVERYTHING, 10) == 2
        assert ops.queues.purge_dead("q", EVERYTHING, 10) == 0
        assert q.counts().total == 0

    @pytest.mark.parametrize("kind", ["kill", "complete"])
    def test_a_finished_item_can_be_retried(self, ops: StoreOps, q: Queue, kind: str) -> None:
        """A dead or completed item can, as long as it is kept. Its id stays."""
        q.create(keep="all")
        [id] = q.fill(1)
        q.end(kind)
        item = ops.queues.retry_item("q", id)
        assert (item.id, item.state, item.attempts) == (id, State.PENDING, 0)
        assert q.claim_all() == [0]
        assert (q.dead(), q.in_state(State.COMPLETED)) == ([], [])

    @pytest.mark.parametrize("keep", ["all", "none"])
    @pytest.mark.parametrize("unique", ["live", "forever"])
    def test_a_completed_claim_can_be_undone(
        self, ops: StoreOps, q: Queue, keep: Any, unique: Any
    ) -> None:
        """The item is restored completely, even if the queue keeps nothing, and even into a full
        queue."""
        q.create(keep=keep, unique=unique, max_items=1)
        a = doc(1, subject="s", priority=3, headers={"h": "x"}, key_values=CHANNEL)
        [id] = q.push(a).ids
        claimed = q.claim_one()
        q.settle(claimed, "complete")
        q.push("other")
        item = ops.queues.retry_item("q", id, claimed)
        assert (item.id, item.state, item.attempts, item.token) == (id, State.PENDING, 0, None)
        again = {item.payload: item for item in q.claim(5)}[claimed.payload]
        for field in ("id", "subject", "priority", "headers", "key_values", "created_at"):
            assert getattr(again, field) == getattr(claimed, field)
        with pytest.raises(ItemActive):
            ops.queues.retry_item("q", id, claimed)
        assert q.in_state(State.COMPLETED) == []

    @pytest.mark.parametrize("keep", ["all", "none"])
    def test_an_undone_claim_needs_its_subject(self, ops: StoreOps, q: Queue, keep: Any) -> None:
        """Nothing changes while another live item has the subject. An item without a subject is
        restored."""
        q.create(keep=keep)
        [id] = q.push(doc(1, subject="s")).ids
        claimed = q.claim_one()
        q.settle(claimed, "complete")
        q.push(doc(2, subject="s"))
        with pytest.raises(SubjectTaken):
            ops.queues.retry_item("q", id, claimed)
        assert q.counts().pending == 1
        ops.queues.retry_item("q", id, msgspec.structs.replace(claimed, subject=None))
        assert q.claim_all() == [2, 1]

    def test_a_planned_item_can_run_now(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """An item that is already in line moves to its end."""
        [a] = q.push(doc("late", delay=60_000)).ids
        b, _ = q.push("b", "c").ids
        assert ops.queues.retry_item("q", a).next_execution == clock.now
        ops.queues.retry_item("q", b)
        assert q.claim_all() == ["c", "late", "b"]

    def test_not_every_item_can_be_retried(self, ops: StoreOps, q: Queue) -> None:
        """Items in flight, items whose subject is in use and deleted items cannot."""
        [a] = bury(q, doc(1, subject="s"))
        [b] = q.push(doc(2, subject="s")).ids
        with pytest.raises(SubjectTaken) as caught:
            ops.queues.retry_item("q", a)
        assert (caught.value.queue, caught.value.subject) == ("q", "s")
        q.claim_one()
        with pytest.raises(ItemActive):
            ops.queues.retry_item("q", b)
        with pytest.raises(UnknownItem):
            ops.queues.retry_item("q", 10**9)
        assert ids(q.dead()) == [a]

    def test_a_dead_item_can_be_edited_and_redriven(self, ops: StoreOps, q: Queue) -> None:
        """It stays dead until it is redriven."""
        [id] = bury(q, {"amount": "x"})
        edited = ops.queues.edit_item("q", id, (json({"amount": 7}), 0), 5, None)
        assert (payload(edited), edited.item.priority, edited.cause) == ({"amount": 7}, 5, "killed")
        assert q.claim_response().state == "empty"
        assert payloads(q.dead()) == [{"amount": 7}]
        ops.queues.redrive("q", EVERYTHING, None, 1)
        assert q.claim_all() == [{"amount": 7}]
