"""The lives of queues, and their settings."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Filter, Take
from headrace.errors import HeadraceError, InvalidOption, QueueExists, UnknownQueue
from headrace.model.items import State
from headrace.model.queues import DEFAULTS, Backoff
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Desk,
    Queue,
    QueueContract,
    doc,
    ids,
    payloads,
)
from headrace.testing.contract.queue_claims import ORDERS, mixed

NAMING: dict[str, tuple[Any, ...]] = {
    "claim_items": (Take(queue="nowhere", token="t", count=1),),
    "expire_leases": ("nowhere", 1),
    "queue_info": ("nowhere",),
    "update_queue": ("nowhere", {}),
    "add_dead_queue": ("nowhere", "r"),
    "pause_queue": ("nowhere", None),
    "resume_queue": ("nowhere",),
    "drop_queue": ("nowhere", True),
    "item": ("nowhere", 1),
    "items": ("nowhere", 1, 0, 1),
    "place": ("nowhere", 1),
    "cancel_item": ("nowhere", 1),
    "retry_item": ("nowhere", 1),
    "edit_item": ("nowhere", 1, None, None, None),
    "dead_items": ("nowhere", Filter(), 0, 1),
    "dead_groups": ("nowhere",),
    "count_dead": ("nowhere", Filter()),
    "redrive": ("nowhere", Filter(), "r", 1),
    "purge_dead": ("nowhere", Filter(), 1),
    "backlogs": (["q", "nowhere"], False),
    "consolidate": (["nowhere"],),
    "logged_errors": ("nowhere", None, 9, 1),
    "samples": ("nowhere", 0, 1),
    "tend_queue": ("nowhere", 1),
    "hold_queue": ("nowhere", 1000, "stopped"),
}


class QueueLifeContract(QueueContract):
    """Queues are made, found, changed, paused and dropped."""

    def test_a_new_queue_has_the_defaults(self, q: Queue, clock: FakeClock) -> None:
        """All of them, and it is not paused."""
        info = q.create()
        assert (info.name, info.settings) == ("q", DEFAULTS)
        assert (info.is_paused, info.paused_by, info.created_at) == (False, None, clock.now)

    def test_a_new_queue_can_differ_from_the_defaults(self, desk: Desk, q: Queue) -> None:
        """In the settings that are named, by either of their names."""
        info = q.create(
            discipline="lifo", lockDuration=9, backoff=Backoff(first=2), dead_to=("a", "b"), keep=5
        )
        settings = info.settings
        assert (settings.discipline, settings.lock_duration) == ("lifo", 9)
        assert (settings.backoff, settings.dead_to) == (Backoff(first=2), ("a", "b"))
        assert (settings.keep, settings.max_crashes) == (5, DEFAULTS.max_crashes)
        assert desk.queue_info("q") == info

    def test_create_finds_what_exists(self, q: Queue, clock: FakeClock) -> None:
        """As it is, if nothing is to be changed; else changed as by an update."""
        first = q.create(lock_duration=9)
        clock.advance(1)
        assert q.create() == first
        assert q.create(lock_duration=9) == first
        changed = q.create(max_crashes=7)
        assert (changed.settings.lock_duration, changed.settings.max_crashes) == (9, 7)
        assert changed.version == first.version + 1

    def test_create_can_insist_on_a_new_queue(self, desk: Desk, q: Queue) -> None:
        """Then one that exists is an error, and stays as it is."""
        first = desk.create_queue("q", {}, True)
        with pytest.raises(QueueExists) as caught:
            desk.create_queue("q", {"lock_duration": 9}, True)
        assert caught.value.queue == "q"
        assert desk.queue_info("q") == first

    @pytest.mark.parametrize(
        "changes",
        [{"colour": "red"}, {"dead_threshold": 0}, {"discipline": "random"}, {"keep": "some"}],
        ids=str,
    )
    def test_what_cannot_be_is_refused(self, desk: Desk, q: Queue, changes: Any) -> None:
        """And nothing is made or changed by it."""
        with pytest.raises(InvalidOption):
            desk.create_queue("r", changes, False)
        with pytest.raises(UnknownQueue):
            desk.queue_info("r")
        before = q.create()
        for change in (desk.update_queue, lambda name, wanted: desk.set_queue_defaults(wanted)):
            with pytest.raises(InvalidOption):
                change("q", {"lock_duration": 5, **changes})
        assert desk.queue_info("q") == before
        assert desk.queue_defaults() == DEFAULTS

    def test_queues_for_the_dead_are_added_one_by_one(self, desk: Desk, q: Queue) -> None:
        """The version grows with each, and not for one that is there; what cannot be is refused."""
        version = q.create(dead_to=("r",)).version
        desk.add_dead_queue("q", "s")
        info = desk.add_dead_queue("q", "r")
        assert (info.settings.dead_to, info.version) == (("r", "s"), version + 1)
        with pytest.raises(HeadraceError):
            desk.add_dead_queue("q", "no good")
        assert desk.queue_info("q") == info

    @pytest.mark.parametrize("operation", NAMING)
    def test_an_unknown_queue_is_an_error(self, desk: Desk, q: Queue, operation: str) -> None:
        """Of every operation that names it and does not make it."""
        q.create()
        with pytest.raises(UnknownQueue) as caught:
            getattr(desk, operation)(*NAMING[operation])
        assert caught.value.queue == "nowhere"
        assert [info.name for info in desk.queues("", "", 10)] == ["q"]

    def test_queues_are_listed_by_name(self, desk: Desk) -> None:
        """In code point order, in pages, by the beginnings of their names."""
        for name in ("b-2", "a", "b_1", "B", "b-10"):
            Queue(desk, name).create()
        listed = [info.name for info in desk.queues("", "", 10)]
        assert listed == ["B", "a", "b-10", "b-2", "b_1"]
        assert [info.name for info in desk.queues("b", "", 2)] == ["b-10", "b-2"]
        assert [info.name for info in desk.queues("b", "b-2", 2)] == ["b_1"]
        assert [info.name for info in desk.queues("b_", "", 9)] == ["b_1"]

    def test_the_version_grows_with_each_change(self, q: Queue) -> None:
        """Only if something differs."""
        first = q.create()
        second = q.update(lock_duration=5, max_crashes=9)
        assert second.version == first.version + 1
        assert q.update(lock_duration=5) == second
        assert q.update() == second
        third = q.update(lock_duration=6)
        assert (third.version, third.settings.max_crashes) == (first.version + 2, 9)

    def test_settings_count_from_now_on(self, q: Queue, clock: FakeClock) -> None:
        """Also for items that wait or are in flight."""
        q.fill(2)
        first, second = q.claim(2)
        q.settle(second, "release")
        q.update(dead_threshold=1, lock_duration=5)
        assert q.settle(first, "reject").state == "dead"
        assert q.claim_one().lease_until == clock.now + 5000

    @pytest.mark.parametrize("before", ORDERS)
    @pytest.mark.parametrize("after", ORDERS)
    def test_a_new_discipline_is_a_new_order(self, q: Queue, before: Any, after: Any) -> None:
        """For those that wait; later ones join it."""
        q.create(discipline=before)
        mixed(q)
        q.update(discipline=after)
        assert payloads(q.claim(2)) == ORDERS[after][:2]
        q.push(doc(6, priority=-9), doc(7, priority=99))
        rest = ORDERS[after][2:]
        expected = {"fifo": [*rest, 6, 7], "lifo": [7, 6, *rest], "priority": [7, *rest, 6]}
        assert q.claim_all() == expected[after]

    def test_what_comes_back_finds_its_place_in_the_new_order(self, q: Queue) -> None:
        """A released item stands where it would have stood."""
        q.create(discipline="fifo")
        q.fill(4)
        q.claim_one()
        item = q.claim_one()
        q.update(discipline="lifo")
        q.settle(item, "release")
        assert q.claim_all() == [3, 2, 1]

    def test_an_update_wakes_who_waits(self, desk: Desk, q: Queue) -> None:
        """They may find another order, or an end of a hold."""
        q.create()
        waiter = desk.store.waiter("queue/q")
        try:
            q.update(lock_duration=5)
            assert desk.is_woken(waiter)
        finally:
            waiter.close()

    def test_a_queue_is_paused_until_it_is_resumed(self, desk: Desk, q: Queue) -> None:
        """Both may be asked for twice; the version stays, for the settings do."""
        before = q.create()
        paused = desk.pause_queue("q", "ann")
        assert (paused.is_paused, paused.paused_by) == (True, "ann")
        assert desk.pause_queue("q", "bob") == paused
        assert desk.queue_info("q") == paused
        assert desk.resume_queue("q") == before
        assert desk.resume_queue("q") == before

    def test_an_update_does_not_resume(self, desk: Desk, q: Queue) -> None:
        """Whoever paused it had a reason."""
        q.create()
        desk.pause_queue("q", "ann")
        info = q.update(lock_duration=5)
        assert (info.is_paused, info.paused_by) == (True, "ann")

    def test_a_resumed_queue_wakes_who_waits(self, desk: Desk, q: Queue) -> None:
        """There may be much to do."""
        q.create()
        desk.pause_queue("q", None)
        waiter = desk.store.waiter("queue/q")
        try:
            desk.resume_queue("q")
            assert desk.is_woken(waiter)
        finally:
            waiter.close()

    def test_a_dropped_queue_is_gone_with_all_it_had(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """Items, history, series, numbers and used subjects; another queue is not touched."""
        q.create(unique="forever", keep="all")
        Queue(desk, "r").fill(1)
        q.push(*(doc(n, subject=str(n)) for n in range(4)), doc("later", delay=1000))
        for kind in ("complete", "kill", "reject"):
            q.end(kind)
        desk.tend_queue("q", 10)
        q.claim_one()
        assert desk.drop_queue("q", False) == 3
        with pytest.raises(UnknownQueue):
            desk.queue_info("q")
        q.create(unique="forever", keep="all")
        assert (q.counts().total, q.counts().entered, q.errors()) == (0, 0, [])
        assert (q.dead(), desk.samples("q", 0, 10)) == ([], [])
        assert q.push(doc(9, subject="0")).notes == ()
        assert Queue(desk, "r").claim_all() == [0]

    @pytest.mark.parametrize("keep_data", [True, False])
    def test_claims_on_a_dropped_queue_are_lost(
        self, desk: Desk, q: Queue, keep_data: bool
    ) -> None:
        """Also when a queue of that name is made again."""
        q.fill(1)
        item = q.claim_one(token="mine")
        desk.drop_queue("q", keep_data)
        assert q.settle(item, "complete").state == "lost"
        q.create()
        assert desk.extend_items("q", "mine", [item.id], 1000) == []
        assert q.settle(item, "complete").state == "lost"

    def test_the_items_of_a_dropped_queue_can_be_kept(self, desk: Desk, q: Queue) -> None:
        """A queue of that name finds them again; those that were in flight wait, untouched."""
        q.create(keep="all", lock_duration=9)
        everything = q.push("a", "b", doc("c", delay=1000), "d").ids
        q.end("complete")
        q.claim_one()
        assert desk.drop_queue("q", True) == 3
        with pytest.raises(UnknownQueue):
            q.take()
        assert desk.queues("", "", 10) == []
        assert desk.backlogs(None, False) == []
        assert q.create().settings.lock_duration == DEFAULTS.lock_duration
        assert q.item(everything[1]).attempts == 0
        assert ids(q.in_state(State.COMPLETED)) == [everything[0]]
        assert q.claim_all() == ["b", "d"]
        assert q.counts().total == 4

    @pytest.mark.parametrize("before", ORDERS)
    @pytest.mark.parametrize("after", ORDERS)
    def test_kept_items_are_in_the_order_of_the_new_queue(
        self, desk: Desk, q: Queue, before: Any, after: Any
    ) -> None:
        """Whichever the old one had."""
        q.create(discipline=before)
        mixed(q)
        desk.drop_queue("q", True)
        q.create(discipline=after)
        assert q.claim_all() == ORDERS[after]

    def test_defaults_are_changed_for_queues_to_come(self, desk: Desk, q: Queue) -> None:
        """Some at a time; what is not named stays."""
        q.create()
        desk.set_queue_defaults({"lock_duration": 9})
        wanted = desk.set_queue_defaults({"maxCrashes": 7})
        assert (wanted.lock_duration, wanted.max_crashes) == (9, 7)
        assert desk.queue_defaults() == wanted
        assert desk.queue_info("q").settings == DEFAULTS
        assert Queue(desk, "r").create(lock_duration=8).settings.max_crashes == 7
        assert desk.queue_info("r").settings.lock_duration == 8
