"""The guarantees of channels inside a queue."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import ChannelRow, ClaimRequest, Deleted
from headrace.core.where import where
from headrace.errors import UnknownQueue
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.queues.items import Document, State
from headrace.model.queues.settings import Discipline
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, needs
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    outcome_of,
    payload,
    payloads,
)

EVERY = Query().form
LINUX = where(os="linux").form
A, B, C = ({"name": name} for name in "abc")


def form(channel: dict[str, Any]) -> str:
    return KeyValues.of(channel).form


def of(channel: dict[str, Any], payload: Any = None, **fields: Any) -> Document:
    """A document for a channel."""
    return doc(payload, key_values=form(channel), **fields)


def fair(q: Queue, count: int, **options: Any) -> list[Any]:
    """The payloads that a fair claim on all channels returns."""
    return payloads(q.claim(count, **{"select": EVERY, **options}))


def rows(q: Queue, select: str | None = None) -> list[tuple[str, int, int]]:
    """The channels, as the value of their only key, the number of pending items and the number in
    flight."""
    found: list[ChannelRow] = q.ops.channels.list(q.name, select, "", 1000)
    values = [(next(iter(KeyValues.read(row.key_values).plain.values())), row) for row in found]
    return [(str(value), row.waiting, row.active) for value, row in values]


class ChannelContract(QueueContract):
    """Channels are lines inside a queue, each named by key-values."""

    @needs("channels")
    def test_a_channel_exists_while_it_has_items(self, q: Queue) -> None:
        """Callers neither create nor delete empty channels."""
        q.push(of(A, 1), of(A, 2), of(B, 3), doc(4))
        assert rows(q) == [("a", 2, 0), ("b", 1, 0)]
        one, two = q.claim(2, select=where(name="a").form)
        assert rows(q) == [("a", 0, 2), ("b", 1, 0)]
        q.settle(one, "complete")
        assert rows(q) == [("a", 0, 1), ("b", 1, 0)]
        q.settle(two, "complete")
        assert rows(q) == [("b", 1, 0)]

    @needs("channels")
    def test_an_item_knows_its_channel_for_life(self, q: Queue, clock: FakeClock) -> None:
        """Claimed, inspected, rejected, dead and retried."""
        q.create(max_attempts=2, reject_delay=1)
        [id] = q.push(of(A, 1)).ids
        assert q.item(id).key_values == form(A)
        assert q.claim_one().key_values == form(A)
        q.settle(q.item(id), "reject")
        clock.advance(1)
        item = q.claim_one(select=EVERY)
        assert item.key_values == form(A)
        assert q.settle(item, "reject").state == "dead"
        assert (q.item(id).item.key_values, rows(q)) == (form(A), [])
        q.ops.queues.retry_item("q", id)
        assert rows(q) == [("a", 1, 0)]
        assert ids(q.claim(1, select=EVERY)) == [id]

    def test_the_first_channel_changes_the_version(self, q: Queue) -> None:
        """Claims use another path from then on. The queue reports that it has channels."""
        q.push(1)
        before = q.ops.queues.info("q")
        q.push(of(A, 2))
        after = q.ops.queues.info("q")
        q.push(of(B, 3))
        assert (before.has_channels, after.has_channels) == (False, True)
        assert after.version == before.version + 1 == q.ops.queues.info("q").version
        assert q.claim_response(version=before.version).state == "stale"

    def test_the_first_channels_of_one_push_change_the_version_once(self, q: Queue) -> None:
        """Also where later documents of the push replace earlier ones, or join their channel."""
        before = q.create().version
        moved = of(A, 3, subject="s")
        q.upsert(1, doc(2, subject="s"), moved, of(A, 4))
        assert q.ops.queues.info("q").version == before + 1

    def test_a_claim_with_the_version_of_the_first_channel(
        self, q: Queue, connect: Connect
    ) -> None:
        """It returns all items, even to a client that cached the queue before it had channels."""
        q.push(1)
        assert payloads(q.claim(9)) == [1]
        Queue(StoreOps(connect())).push(of(A, 2))
        assert payloads(q.claim(9, version=q.ops.queues.info("q").version)) == [2]

    def test_a_claim_returns_selected_channels_only(self, q: Queue) -> None:
        """Neither other channels nor items in no channel."""
        linux, mac = {"os": "linux", "n": 1}, {"os": "mac", "n": 2}
        q.push(doc(0), of(mac, 1), of(linux, 2), of(mac, 3), of({"os": "linux"}, 4))
        assert sorted(payloads(q.claim(10, select=LINUX))) == [2, 4]
        assert q.claim_response(10, select=LINUX).state == "empty"
        assert payloads(q.claim(10, select=where(n__lt=5).form)) == [1, 3]
        assert payloads(q.claim(10)) == [0]

    def test_a_claim_without_a_selection_follows_the_line(self, q: Queue) -> None:
        """As if there were no channels."""
        q.push(of(A, 0), of(B, 1), doc(2), of(A, 3))
        assert q.claim_all() == [0, 1, 2, 3]
        assert fair(q, 5) == []

    def test_an_empty_selection_selects_every_channel(self, q: Queue) -> None:
        """It does not select items in no channel."""
        q.push(of(A, 0), doc(1), of(B, 2))
        assert fair(q, 5) == [0, 2]

    @pytest.mark.parametrize("discipline", ["fifo", "lifo", "priority"])
    def test_a_channel_has_the_order_of_its_queue(self, q: Queue, discipline: Discipline) -> None:
        """First in, first out, or as the discipline says."""
        q.create(discipline=discipline)
        q.push(*[of(A, n, priority=n % 3) for n in range(6)])
        orders = {"fifo": [0, 1, 2, 3, 4, 5], "lifo": [5, 4, 3, 2, 1, 0]}
        wanted = orders.get(discipline, [2, 5, 1, 4, 0, 3])
        assert fair(q, 2) + fair(q, 4) == wanted

    def test_channels_take_turns(self, q: Queue) -> None:
        """With a quantum of one, each channel gives one item, whichever was pushed first."""
        q.push(*[of(A, f"a{n}") for n in range(4)], of(B, "b0"), of(C, "c0"), of(B, "b1"))
        got = [fair(q, 1, quantum=1)[0] for _ in range(7)]
        assert got == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]

    def test_a_channel_gives_a_quantum_in_its_turn(self, q: Queue) -> None:
        """Then it moves behind the others."""
        q.push(*[of(A, f"a{n}") for n in range(5)], *[of(B, f"b{n}") for n in range(5)])
        assert fair(q, 4, quantum=2) == ["a0", "a1", "b0", "b1"]
        assert fair(q, 3, quantum=2) == ["a2", "a3", "b2"]

    def test_channels_with_more_items_share_the_rest(self, q: Queue) -> None:
        """A large claim is filled, and no single channel supplies all of it."""
        q.push(*[of(A, f"a{n}") for n in range(20)], of(B, "b0"))
        q.push(*[of(C, f"c{n}") for n in range(20)])
        got = fair(q, 21, quantum=2)
        assert len(got) == 21
        assert [sum(item[0] == name for item in got) for name in "abc"] == [10, 1, 10]

    def test_a_long_channel_does_not_delay_short_ones(self, q: Queue) -> None:
        """Its length does not matter."""
        q.push(*[of(A, "long") for _ in range(200)])
        for n in range(20):
            q.push(of({"name": f"short{n}"}, "short"))
        got = [item for _ in range(3) for item in fair(q, 10, quantum=5)]
        assert got.count("short") == 20

    def test_a_new_channel_queues_behind_the_others(self, q: Queue) -> None:
        """A stream of new channels does not starve the old ones."""
        q.push(of(A, "a0"), of(A, "a1"), of(B, "b0"))
        assert fair(q, 1, quantum=1) == ["a0"]
        q.push(of(C, "c0"))
        assert fair(q, 3, quantum=1) == ["b0", "a1", "c0"]

    def test_a_channel_that_was_empty_queues_behind_the_others(self, q: Queue) -> None:
        """It lost its turn when its last item left the line, for whatever reason."""
        q.push(of(A, "a0"), of(B, "b0"), of(C, "c0"))
        assert fair(q, 1) == ["a0"]
        [id] = q.push(of(A, "a1")).ids
        q.ops.queues.cancel_item("q", q.ops.queues.items("q", State.PENDING, 0, 1)[0].id)
        q.push(of(B, "b1"))
        assert id
        assert fair(q, 3, quantum=1) == ["c0", "a1", "b1"]

    def test_returned_items_take_part(self, q: Queue, clock: FakeClock) -> None:
        """Items that were released, rejected with a delay, abandoned by a dead worker, or
        planned."""
        q.create(reject_delay=5, lease=60)
        q.push(of(A, "released"), of(B, "rejected"), of(C, "lost"), of(A, "later", delay=10_000))
        released, rejected, _ = q.claim(3, select=EVERY)
        assert q.claim_response(1, select=EVERY).next_due == clock.now + 10_000
        q.settle(released, "release")
        assert fair(q, 5) == ["released"]
        assert q.settle(rejected, "reject").state == "planned"
        clock.advance(5)
        assert fair(q, 5) == ["rejected"]
        clock.advance(5)
        assert fair(q, 5) == ["later"]
        clock.advance(50)
        assert "lost" in fair(q, 5)

    @needs("channels")
    @pytest.mark.parametrize("is_registered", [False, True])
    @pytest.mark.parametrize("is_first", [False, True])
    def test_due_items_are_found_by_a_query(
        self, q: Queue, clock: FakeClock, is_registered: bool, is_first: bool
    ) -> None:
        """The first claim after their time finds them, even if their channel was empty before."""
        not_c = where(name__ne="c").form
        q.push(of(B, "later", delay=1000), of(C, "never", delay=1000))
        if is_registered:
            q.ops.channels.register_selection("q", not_c)
        if not is_first:
            q.push(of(A, "now"))
            assert payloads(q.claim(2, select=not_c)) == ["now"]
        clock.advance(1)
        assert payloads(q.claim(2, select=not_c)) == ["later"]

    def test_the_order_of_the_line(self, q: Queue) -> None:
        """The oldest item first, or by priority, across channels."""
        q.create(discipline="priority")
        q.push(*[of(A, f"a{n}") for n in range(3)], of(B, "b0"), of(C, "c0", priority=1), doc("x"))
        not_c = where(name__ne="c").form
        assert payloads(q.claim(2, select=EVERY, order="line")) == ["c0", "a0"]
        assert payloads(q.claim(9, select=not_c, order="line")) == ["a1", "a2", "b0"]

    def test_selected_items_behind_many_others(self, q: Queue) -> None:
        """A claim finds them however many others are before them, in both orders."""
        for start in range(0, 600, 100):
            q.push(*[of({"os": "mac", "n": n}, n) for n in range(start, start + 100)])
        q.push(of({"os": "linux"}, "a"), of({"os": "linux"}, "b"))
        assert payloads(q.claim(1, select=LINUX)) == ["a"]
        assert payloads(q.claim(1, select=LINUX, order="line")) == ["b"]

    def test_a_strict_channel_has_one_item_in_flight(self, q: Queue) -> None:
        """This holds for every client and every kind of claim."""
        q.create(serial=True)
        q.push(of(A, "a0"), of(A, "a1"), of(B, "b0"), doc("x"), doc("y"))
        a, b = q.claim(10, select=EVERY)
        assert payloads([a, b]) == ["a0", "b0"]
        assert q.claim_response(10, select=EVERY).state == "empty"
        assert q.claim_response(10, select=EVERY, order="line").state == "empty"
        assert q.claim_all() == ["x", "y"]
        q.settle(b, "complete")
        assert fair(q, 9) == []
        q.settle(a, "complete")
        assert q.claim_all() == ["a1"]

    def test_a_strict_channel_waits_for_an_item_that_keeps_its_place(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """It does not wait for an item that moved to the back."""
        q.create(serial=True, reject_delay=5)
        front = {"retry_position": "front"}
        q.push(of(A, "a0", overrides=front), of(A, "a1"), of(B, "b0"), of(B, "b1"))
        for item in q.claim(9, select=EVERY):
            q.settle(item, "reject")
        assert fair(q, 9) == ["b1"]
        clock.advance(5)
        assert fair(q, 9) == ["a0"]

    def test_a_settled_item_of_a_strict_channel_wakes_waiters(
        self, q: Queue, ops: StoreOps
    ) -> None:
        """Only then does the channel have a claimable item."""
        q.create(serial=True)
        q.push(of(A, 0), of(A, 1))
        [item] = q.claim(1, select=EVERY)
        waiter = ops.store.waiter("queue/q")
        try:
            q.settle(item, "complete")
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
        assert fair(q, 1) == [1]

    def test_a_new_channel_wakes_waiters(self, q: Queue, ops: StoreOps) -> None:
        """A waiter with a selection sees channels that are created later."""
        q.create()
        waiter = ops.store.waiter("queue/q")
        try:
            assert q.claim_response(1, select=LINUX).state == "empty"
            q.push(of({"os": "linux"}, 1))
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
        assert payload(q.claim_one(select=LINUX)) == 1

    @needs("channels")
    def test_subjects_are_unique_across_channels(self, q: Queue) -> None:
        """One live item per subject in the queue. An upsert moves the item to its own channel."""
        q.push(of(A, 0), of(A, 1, subject="s"), of(B, 2))
        assert q.push(of(B, 3, subject="s")).notes[0].reason == "exists"
        q.push(of(B, 4, subject="s"), mode="upsert")
        assert rows(q) == [("a", 1, 0), ("b", 2, 0)]
        assert fair(q, 9) == [0, 2, 4]

    @needs("channels")
    def test_an_upsert_moves_the_last_item_of_a_channel(self, q: Queue) -> None:
        """The old channel no longer exists then."""
        q.push(of(A, 1, subject="s"))
        q.push(doc(2, subject="s"), mode="upsert")
        assert (rows(q), fair(q, 9), q.claim_all()) == ([], [], [2])

    @needs("channels")
    def test_a_successor_goes_to_its_channel(self, q: Queue) -> None:
        """It moves there when the claim ends."""
        q.push(of(A, 1, subject="s"))
        item = q.claim_one()
        q.push(of(B, 2, subject="s"), mode="upsert", while_active="next")
        assert rows(q) == [("a", 0, 1)]
        q.settle(item, "complete")
        assert (rows(q), fair(q, 9)) == ([("b", 1, 0)], [2])

    @needs("channels")
    def test_a_dropped_queue_may_get_its_first_channel(self, q: Queue, ops: StoreOps) -> None:
        """The successor of an item in flight may bring it. A queue created again under that name
        has channels, and its version is one that no client has seen."""
        version = q.create().version
        q.push(doc(1, subject="s"))
        q.claim_one()
        q.push(of(A, 2, subject="s"), mode="upsert", while_active="next")
        ops.queues.drop("q", True)
        found = q.create()
        assert (found.has_channels, found.version) == (True, version + 2)
        assert (rows(q), fair(q, 9)) == ([("a", 1, 0)], [2])

    @needs("channels")
    def test_a_dead_copy_goes_to_the_channel_of_that_name(self, q: Queue, ops: StoreOps) -> None:
        """So does an item that is moved to another queue."""
        other = Queue(ops, "other")
        q.create(dead_to=("other",))
        q.push(of(A, 1))
        q.end("kill")
        assert rows(other) == [("a", 1, 0)]
        assert fair(other, 1) == [1]

    @needs("channels")
    def test_channels_are_listed_by_query(self, q: Queue) -> None:
        """With the numbers of pending items and items in flight, page by page."""
        q.push(*[of({"n": n}) for n in range(5)], of({"n": 3}), of({"n": 3}, delay=1000))
        q.claim(1, select=where(n=3).form)
        assert rows(q, where(n__gt=2).form) == [("3", 2, 1), ("4", 1, 0)]
        first = q.ops.channels.list("q", None, "", 2)
        rest = q.ops.channels.list("q", None, first[-1].key_values, 9)
        assert [row.key_values for row in first + rest] == [form({"n": n}) for n in range(5)]

    @needs("channels")
    def test_channels_of_an_unknown_queue(self, ops: StoreOps) -> None:
        """The call is refused, like any other on an unknown queue."""
        for build in (
            lambda: ops.channels.list("none", None, "", 1),
            lambda: ops.channels.delete("none", None, 1),
            lambda: ops.queues.claim(ClaimRequest(queue="none", token="t", count=1, select=EVERY)),
        ):
            with pytest.raises(UnknownQueue):
                build()

    @needs("channels")
    def test_deleting_channels_deletes_their_items(self, q: Queue) -> None:
        """Planned, pending and claimed items are deleted, some per call. Other channels stay."""
        q.push(of(A, 0), of(A, 1), of(A, 2, delay=1000), of(B, 3, subject="s"), of(C, 4))
        [item] = q.claim(1, select=where(name="a").form)
        not_c = where(name__ne="c").form
        assert q.ops.channels.delete("q", not_c, 1) == Deleted(1, 3)
        assert q.ops.channels.delete("q", not_c, 9) == Deleted(1, 1)
        assert q.ops.channels.delete("q", not_c, 9) == Deleted(0, 0)
        assert rows(q) == [("c", 1, 0)]
        assert fair(q, 9) == [4]
        assert q.is_gone(item.id)
        assert q.push(of(A, 5, subject="s")).notes == ()

    @needs("channels")
    @pytest.mark.parametrize("kind", ["complete", "reject", "release"])
    def test_the_holder_of_an_item_learns_that_its_channel_was_deleted(
        self, q: Queue, kind: str
    ) -> None:
        """The answer is "deleted", not merely "lost". Nothing of the outcome is written."""
        q.push(of(A, 1), of(B, 2))
        a, b = q.claim(2, select=EVERY)
        q.ops.channels.delete("q", where(name="a").form, 9)
        said_a = outcome_of(a, kind, pushes=(q.call(9),))
        answers = q.ops.queues.settle("q", [said_a, outcome_of(b, "complete")])
        assert [(answer.item, answer.state) for answer in answers] == [
            (a.id, "gone"),
            (b.id, "completed"),
        ]
        assert q.ops.channels.deleted_items("q", a.token, [a.id, b.id]) == [a.id]
        assert q.ops.channels.deleted_items("q", "other", [a.id]) == []
        assert q.settle(b, "complete").state == "lost"
        assert q.claim_all() == []

    @needs("channels")
    def test_a_deletion_is_remembered_for_a_day(self, q: Queue, clock: FakeClock) -> None:
        """A later outcome gets the answer "lost"."""
        q.push(of(A, 1))
        item = q.claim_one()
        q.ops.channels.delete("q", None, 9)
        clock.advance(24 * 3600)
        q.ops.queues.maintain("q", 100)
        assert q.settle(item, "complete").state == "lost"

    def test_maintenance_deletes_empty_channels_only(self, q: Queue, clock: FakeClock) -> None:
        """A deleted channel is created again when it is needed."""
        q.push(of(A, 1), of(B, 2))
        q.settle(q.claim_one(select=where(name="a").form), "complete")
        clock.advance(2 * 24 * 3600)
        q.ops.queues.maintain("q", 100)
        q.push(of(A, 3))
        assert fair(q, 9) == [2, 3]

    def test_turns_survive_a_change_of_discipline(self, q: Queue) -> None:
        """Only the order within channels changes."""
        q.create(discipline="fifo")
        q.push(of(A, "a0"), of(A, "a1"), of(B, "b0"), of(B, "b1"), of(A, "a2"))
        assert fair(q, 1, quantum=1) == ["a0"]
        q.update(discipline="lifo")
        assert fair(q, 9) == ["b1", "b0", "a2", "a1"]

    @needs("channels")
    def test_a_queue_dropped_with_its_channels(self, q: Queue) -> None:
        """A queue created again over kept data has its channels again. Otherwise nothing is
        left."""
        q.push(of(A, 0), of(B, 1))
        q.claim_one(select=where(name="a").form)
        q.ops.queues.drop("q", True)
        q.create()
        assert sorted(fair(q, 9)) == [0, 1]
        q.ops.queues.drop("q", False)
        q.create()
        assert (rows(q), fair(q, 9)) == ([], [])
        q.push(of(A, 2))
        assert fair(q, 9) == [2]
