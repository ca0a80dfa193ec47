"""What channels inside a queue promise."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import ChannelRow, Deleted, Take
from headrace.core.where import where
from headrace.errors import UnknownQueue
from headrace.model.items import Document, State
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.model.queues import Discipline
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect
from headrace.testing.contract.queue_base import (
    Desk,
    Queue,
    QueueContract,
    doc,
    ids,
    payload,
    payloads,
    said,
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
    """The payloads that a fair claim on all channels gets."""
    return payloads(q.claim(count, **{"select": EVERY, **options}))


def rows(q: Queue, select: str | None = None) -> list[tuple[str, int, int]]:
    """The channels: the value of their only key, what waits and what is out."""
    found: list[ChannelRow] = q.desk.channels(q.name, select, "", 1000)
    values = [(next(iter(KeyValues.read(row.key_values).plain.values())), row) for row in found]
    return [(str(value), row.waiting, row.active) for value, row in values]


class ChannelContract(QueueContract):
    """Lines inside a queue, each named by key-values."""

    def test_a_push_makes_the_channel_and_its_last_item_takes_it_away(self, q: Queue) -> None:
        """Nobody creates or removes channels."""
        q.push(of(A, 1), of(A, 2), of(B, 3), doc(4))
        assert rows(q) == [("a", 2, 0), ("b", 1, 0)]
        one, two = q.claim(2, select=where(name="a").form)
        assert rows(q) == [("a", 0, 2), ("b", 1, 0)]
        q.settle(one, "complete")
        assert rows(q) == [("a", 0, 1), ("b", 1, 0)]
        q.settle(two, "complete")
        assert rows(q) == [("b", 1, 0)]

    def test_an_item_knows_its_channel_for_life(self, q: Queue, clock: FakeClock) -> None:
        """Claimed, looked at, rejected, dead and alive again."""
        q.create(dead_threshold=2, reject_delay=1)
        [id] = q.push(of(A, 1)).ids
        assert q.item(id).key_values == form(A)
        assert q.claim_one().key_values == form(A)
        q.settle(q.item(id), "reject")
        clock.advance(1)
        item = q.claim_one(select=EVERY)
        assert item.key_values == form(A)
        assert q.settle(item, "reject").state == "dead"
        assert (q.item(id).item.key_values, rows(q)) == (form(A), [])
        q.desk.retry_item("q", id)
        assert rows(q) == [("a", 1, 0)]
        assert ids(q.claim(1, select=EVERY)) == [id]

    def test_the_first_channel_changes_the_version(self, q: Queue) -> None:
        """Claims go another way from then on; a queue says that it has channels."""
        q.push(1)
        before = q.desk.queue_info("q")
        q.push(of(A, 2))
        after = q.desk.queue_info("q")
        q.push(of(B, 3))
        assert (before.has_channels, after.has_channels) == (False, True)
        assert after.version == before.version + 1 == q.desk.queue_info("q").version
        assert q.take(version=before.version).state == "stale"

    def test_a_claim_under_the_version_that_the_first_channel_made(
        self, q: Queue, connect: Connect
    ) -> None:
        """It gets what is there, also from a client that knew the queue before it had channels."""
        q.push(1)
        assert payloads(q.claim(9)) == [1]
        Queue(Desk(connect())).push(of(A, 2))
        assert payloads(q.claim(9, version=q.desk.queue_info("q").version)) == [2]

    def test_what_is_selected_is_handed_out(self, q: Queue) -> None:
        """And nothing else: not other channels, nor what is in none."""
        linux, mac = {"os": "linux", "n": 1}, {"os": "mac", "n": 2}
        q.push(doc(0), of(mac, 1), of(linux, 2), of(mac, 3), of({"os": "linux"}, 4))
        assert sorted(payloads(q.claim(10, select=LINUX))) == [2, 4]
        assert q.take(10, select=LINUX).state == "empty"
        assert payloads(q.claim(10, select=where(n__lt=5).form)) == [1, 3]
        assert payloads(q.claim(10)) == [0]

    def test_a_claim_that_selects_nothing_takes_the_line(self, q: Queue) -> None:
        """As if there were no channels."""
        q.push(of(A, 0), of(B, 1), doc(2), of(A, 3))
        assert q.claim_all() == [0, 1, 2, 3]
        assert fair(q, 5) == []

    def test_an_empty_selection_selects_every_channel(self, q: Queue) -> None:
        """But not what is in none."""
        q.push(of(A, 0), doc(1), of(B, 2))
        assert fair(q, 5) == [0, 2]

    @pytest.mark.parametrize("discipline", ["fifo", "lifo", "priority"])
    def test_a_channel_has_the_order_of_its_queue(self, q: Queue, discipline: Discipline) -> None:
        """First in first out, or as the discipline says."""
        q.create(discipline=discipline)
        q.push(*[of(A, n, priority=n % 3) for n in range(6)])
        orders = {"fifo": [0, 1, 2, 3, 4, 5], "lifo": [5, 4, 3, 2, 1, 0]}
        wanted = orders.get(discipline, [2, 5, 1, 4, 0, 3])
        assert fair(q, 2) + fair(q, 4) == wanted

    def test_channels_take_turns(self, q: Queue) -> None:
        """One of each with a quantum of one, whatever came first."""
        q.push(*[of(A, f"a{n}") for n in range(4)], of(B, "b0"), of(C, "c0"), of(B, "b1"))
        got = [fair(q, 1, quantum=1)[0] for _ in range(7)]
        assert got == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]

    def test_a_channel_gives_a_quantum_in_its_turn(self, q: Queue) -> None:
        """Then it stands behind the others."""
        q.push(*[of(A, f"a{n}") for n in range(5)], *[of(B, f"b{n}") for n in range(5)])
        assert fair(q, 4, quantum=2) == ["a0", "a1", "b0", "b1"]
        assert fair(q, 3, quantum=2) == ["a2", "a3", "b2"]

    def test_those_that_have_more_share_the_rest(self, q: Queue) -> None:
        """A large claim is filled, and no channel gets all of it."""
        q.push(*[of(A, f"a{n}") for n in range(20)], of(B, "b0"))
        q.push(*[of(C, f"c{n}") for n in range(20)])
        got = fair(q, 21, quantum=2)
        assert len(got) == 21
        assert [sum(item[0] == name for item in got) for name in "abc"] == [10, 1, 10]

    def test_a_long_channel_does_not_hold_up_short_ones(self, q: Queue) -> None:
        """However many it has."""
        q.push(*[of(A, "long") for _ in range(200)])
        for n in range(20):
            q.push(of({"name": f"short{n}"}, "short"))
        got = [item for _ in range(3) for item in fair(q, 10, quantum=5)]
        assert got.count("short") == 20

    def test_a_new_channel_stands_behind_the_others(self, q: Queue) -> None:
        """New ones all the time do not starve the old."""
        q.push(of(A, "a0"), of(A, "a1"), of(B, "b0"))
        assert fair(q, 1, quantum=1) == ["a0"]
        q.push(of(C, "c0"))
        assert fair(q, 3, quantum=1) == ["b0", "a1", "c0"]

    def test_a_channel_that_was_empty_stands_behind_the_others(self, q: Queue) -> None:
        """It has lost its turn when its last item left the line, however that left."""
        q.push(of(A, "a0"), of(B, "b0"), of(C, "c0"))
        assert fair(q, 1) == ["a0"]
        [id] = q.push(of(A, "a1")).ids
        q.desk.cancel_item("q", q.desk.items("q", State.PENDING, 0, 1)[0].id)
        q.push(of(B, "b1"))
        assert id
        assert fair(q, 3, quantum=1) == ["c0", "a1", "b1"]

    def test_what_comes_back_takes_part(self, q: Queue, clock: FakeClock) -> None:
        """Released, rejected until its time, left by a worker that died, planned."""
        q.create(reject_delay=5, lock_duration=60)
        q.push(of(A, "released"), of(B, "rejected"), of(C, "lost"), of(A, "later", delay=10_000))
        released, rejected, _ = q.claim(3, select=EVERY)
        assert q.take(1, select=EVERY).next_due == clock.now + 10_000
        q.settle(released, "release")
        assert fair(q, 5) == ["released"]
        assert q.settle(rejected, "reject").state == "planned"
        clock.advance(5)
        assert fair(q, 5) == ["rejected"]
        clock.advance(5)
        assert fair(q, 5) == ["later"]
        clock.advance(50)
        assert "lost" in fair(q, 5)

    @pytest.mark.parametrize("is_registered", [False, True])
    @pytest.mark.parametrize("is_first", [False, True])
    def test_what_becomes_due_takes_part_in_a_query(
        self, q: Queue, clock: FakeClock, is_registered: bool, is_first: bool
    ) -> None:
        """By the first claim after its time, although nothing else is in its channel."""
        not_c = where(name__ne="c").form
        q.push(of(B, "later", delay=1000), of(C, "never", delay=1000))
        if is_registered:
            q.desk.register_selection("q", not_c)
        if not is_first:
            q.push(of(A, "now"))
            assert payloads(q.claim(2, select=not_c)) == ["now"]
        clock.advance(1)
        assert payloads(q.claim(2, select=not_c)) == ["later"]

    def test_the_order_of_the_line(self, q: Queue) -> None:
        """The oldest first, or by priority, whichever channel it is in."""
        q.create(discipline="priority")
        q.push(*[of(A, f"a{n}") for n in range(3)], of(B, "b0"), of(C, "c0", priority=1), doc("x"))
        not_c = where(name__ne="c").form
        assert payloads(q.claim(2, select=EVERY, order="line")) == ["c0", "a0"]
        assert payloads(q.claim(9, select=not_c, order="line")) == ["a1", "a2", "b0"]

    def test_selected_items_behind_many_others(self, q: Queue) -> None:
        """They are found however many stand before them, in both orders."""
        for start in range(0, 600, 100):
            q.push(*[of({"os": "mac", "n": n}, n) for n in range(start, start + 100)])
        q.push(of({"os": "linux"}, "a"), of({"os": "linux"}, "b"))
        assert payloads(q.claim(1, select=LINUX)) == ["a"]
        assert payloads(q.claim(1, select=LINUX, order="line")) == ["b"]

    def test_a_strict_channel_hands_out_one_at_a_time(self, q: Queue) -> None:
        """Whoever asks, and however."""
        q.create(serial=True)
        q.push(of(A, "a0"), of(A, "a1"), of(B, "b0"), doc("x"), doc("y"))
        a, b = q.claim(10, select=EVERY)
        assert payloads([a, b]) == ["a0", "b0"]
        assert q.take(10, select=EVERY).state == "empty"
        assert q.take(10, select=EVERY, order="line").state == "empty"
        assert q.claim_all() == ["x", "y"]
        q.settle(b, "complete")
        assert fair(q, 9) == []
        q.settle(a, "complete")
        assert q.claim_all() == ["a1"]

    def test_a_strict_channel_waits_for_what_returns_to_its_place(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """Not for what went to the back."""
        q.create(serial=True, reject_delay=5)
        front = {"retry_position": "front"}
        q.push(of(A, "a0", overrides=front), of(A, "a1"), of(B, "b0"), of(B, "b1"))
        for item in q.claim(9, select=EVERY):
            q.settle(item, "reject")
        assert fair(q, 9) == ["b1"]
        clock.advance(5)
        assert fair(q, 9) == ["a0"]

    def test_a_settled_item_of_a_strict_channel_wakes_who_waits(self, q: Queue, desk: Desk) -> None:
        """Only then is there something for them."""
        q.create(serial=True)
        q.push(of(A, 0), of(A, 1))
        [item] = q.claim(1, select=EVERY)
        waiter = desk.store.waiter("queue/q")
        try:
            q.settle(item, "complete")
            assert desk.is_woken(waiter)
        finally:
            waiter.close()
        assert fair(q, 1) == [1]

    def test_a_new_channel_wakes_who_waits(self, q: Queue, desk: Desk) -> None:
        """Whoever waits for a selection sees channels that come later."""
        q.create()
        waiter = desk.store.waiter("queue/q")
        try:
            assert q.take(1, select=LINUX).state == "empty"
            q.push(of({"os": "linux"}, 1))
            assert desk.is_woken(waiter)
        finally:
            waiter.close()
        assert payload(q.claim_one(select=LINUX)) == 1

    def test_subjects_are_the_queues(self, q: Queue) -> None:
        """One live item per subject, whichever channel; an upsert moves it to its own."""
        q.push(of(A, 0), of(A, 1, subject="s"), of(B, 2))
        assert q.push(of(B, 3, subject="s")).notes[0].reason == "exists"
        q.push(of(B, 4, subject="s"), mode="upsert")
        assert rows(q) == [("a", 1, 0), ("b", 2, 0)]
        assert fair(q, 9) == [0, 2, 4]

    def test_an_upsert_takes_an_item_out_of_its_channel(self, q: Queue) -> None:
        """Its last one: then the channel is gone."""
        q.push(of(A, 1, subject="s"))
        q.push(doc(2, subject="s"), mode="upsert")
        assert (rows(q), fair(q, 9), q.claim_all()) == ([], [], [2])

    def test_a_successor_goes_to_its_channel(self, q: Queue) -> None:
        """When the claim ends."""
        q.push(of(A, 1, subject="s"))
        item = q.claim_one()
        q.push(of(B, 2, subject="s"), mode="upsert", while_active="next")
        assert rows(q) == [("a", 0, 1)]
        q.settle(item, "complete")
        assert (rows(q), fair(q, 9)) == ([("b", 1, 0)], [2])

    def test_a_dropped_queue_may_get_its_first_channel(self, q: Queue, desk: Desk) -> None:
        """From what waited behind an item in flight. A queue of that name knows of it, and its
        version is one that nobody has seen."""
        version = q.create().version
        q.push(doc(1, subject="s"))
        q.claim_one()
        q.push(of(A, 2, subject="s"), mode="upsert", while_active="next")
        desk.drop_queue("q", True)
        found = q.create()
        assert (found.has_channels, found.version) == (True, version + 2)
        assert (rows(q), fair(q, 9)) == ([("a", 1, 0)], [2])

    def test_a_dead_copy_goes_to_the_channel_of_that_name(self, q: Queue, desk: Desk) -> None:
        """And so does what is moved to another queue."""
        other = Queue(desk, "other")
        q.create(dead_to=("other",))
        q.push(of(A, 1))
        q.end("kill")
        assert rows(other) == [("a", 1, 0)]
        assert fair(other, 1) == [1]

    def test_channels_are_listed_by_query(self, q: Queue) -> None:
        """With what waits and what is out, page by page."""
        q.push(*[of({"n": n}) for n in range(5)], of({"n": 3}), of({"n": 3}, delay=1000))
        q.claim(1, select=where(n=3).form)
        assert rows(q, where(n__gt=2).form) == [("3", 2, 1), ("4", 1, 0)]
        first = q.desk.channels("q", None, "", 2)
        rest = q.desk.channels("q", None, first[-1].key_values, 9)
        assert [row.key_values for row in first + rest] == [form({"n": n}) for n in range(5)]

    def test_channels_of_an_unknown_queue(self, desk: Desk) -> None:
        """Are refused like all else."""
        for build in (
            lambda: desk.channels("none", None, "", 1),
            lambda: desk.delete_channels("none", None, 1),
            lambda: desk.claim_items(Take(queue="none", token="t", count=1, select=EVERY)),
        ):
            with pytest.raises(UnknownQueue):
                build()

    def test_deleted_channels_are_gone_with_all_they_had(self, q: Queue) -> None:
        """Planned, pending and out; a few at a time; others stay."""
        q.push(of(A, 0), of(A, 1), of(A, 2, delay=1000), of(B, 3, subject="s"), of(C, 4))
        [item] = q.claim(1, select=where(name="a").form)
        not_c = where(name__ne="c").form
        assert q.desk.delete_channels("q", not_c, 1) == Deleted(1, 3)
        assert q.desk.delete_channels("q", not_c, 9) == Deleted(1, 1)
        assert q.desk.delete_channels("q", not_c, 9) == Deleted(0, 0)
        assert rows(q) == [("c", 1, 0)]
        assert fair(q, 9) == [4]
        assert q.is_gone(item.id)
        assert q.push(of(A, 5, subject="s")).notes == ()

    @pytest.mark.parametrize("kind", ["complete", "reject", "release"])
    def test_who_holds_an_item_of_a_deleted_channel_hears_that_it_is_gone(
        self, q: Queue, kind: str
    ) -> None:
        """Not merely that it is lost; and nothing of the outcome is written."""
        q.push(of(A, 1), of(B, 2))
        a, b = q.claim(2, select=EVERY)
        q.desk.delete_channels("q", where(name="a").form, 9)
        said_a = said(a, kind, pushes=(q.call(9),))
        answers = q.desk.settle("q", [said_a, said(b, "complete")])
        assert [(answer.item, answer.state) for answer in answers] == [
            (a.id, "gone"),
            (b.id, "completed"),
        ]
        assert q.desk.gone_items("q", a.token, [a.id, b.id]) == [a.id]
        assert q.desk.gone_items("q", "other", [a.id]) == []
        assert q.settle(b, "complete").state == "lost"
        assert q.claim_all() == []

    def test_it_is_forgotten_after_a_day(self, q: Queue, clock: FakeClock) -> None:
        """Whoever comes later hears that the item is lost."""
        q.push(of(A, 1))
        item = q.claim_one()
        q.desk.delete_channels("q", None, 9)
        clock.advance(24 * 3600)
        q.desk.tend_queue("q", 100)
        assert q.settle(item, "complete").state == "lost"

    def test_channels_live_on_after_maintenance(self, q: Queue, clock: FakeClock) -> None:
        """What has nothing is forgotten, and made again when it is needed."""
        q.push(of(A, 1), of(B, 2))
        q.settle(q.claim_one(select=where(name="a").form), "complete")
        clock.advance(2 * 24 * 3600)
        q.desk.tend_queue("q", 100)
        q.push(of(A, 3))
        assert fair(q, 9) == [2, 3]

    def test_turns_survive_a_change_of_discipline(self, q: Queue) -> None:
        """Only the order within channels is another."""
        q.create(discipline="fifo")
        q.push(of(A, "a0"), of(A, "a1"), of(B, "b0"), of(B, "b1"), of(A, "a2"))
        assert fair(q, 1, quantum=1) == ["a0"]
        q.update(discipline="lifo")
        assert fair(q, 9) == ["b1", "b0", "a2", "a1"]

    def test_a_queue_dropped_with_its_channels(self, q: Queue) -> None:
        """Kept data has them again; otherwise nothing is left."""
        q.push(of(A, 0), of(B, 1))
        q.claim_one(select=where(name="a").form)
        q.desk.drop_queue("q", True)
        q.create()
        assert sorted(fair(q, 9)) == [0, 1]
        q.desk.drop_queue("q", False)
        q.create()
        assert (rows(q), fair(q, 9)) == ([], [])
        q.push(of(A, 2))
        assert fair(q, 9) == [2]
