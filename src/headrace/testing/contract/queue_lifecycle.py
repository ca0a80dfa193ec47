"""The lifecycle of queues, and their settings."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from headrace.contract.items import ClaimRequest, ItemFilter
from headrace.errors import HeadraceError, InvalidOption, QueueExists, UnknownQueue
from headrace.model.queues.items import State
from headrace.model.queues.settings import DEFAULTS, Backoff
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    payloads,
)
from headrace.testing.contract.queue_claims import ORDERS, mixed

NAMING: dict[str, tuple[Any, ...]] = {
    "queues.claim": (ClaimRequest(queue="nowhere", token="t", count=1),),
    "queues.expire_leases": ("nowhere", 1),
    "queues.info": ("nowhere",),
    "queues.update": ("nowhere", {}),
    "queues.add_dead_queue": ("nowhere", "r"),
    "queues.pause": ("nowhere", None),
    "queues.resume": ("nowhere",),
    "queues.drop": ("nowhere", True),
    "queues.item": ("nowhere", 1),
    "queues.items": ("nowhere", 1, 0, 1),
    "queues.position": ("nowhere", 1),
    "queues.cancel_item": ("nowhere", 1),
    "queues.retry_item": ("nowhere", 1),
    "queues.edit_item": ("nowhere", 1, None, None, None),
    "queues.dead_items": ("nowhere", ItemFilter(), 0, 1),
    "queues.dead_groups": ("nowhere",),
    "queues.count_dead": ("nowhere", ItemFilter()),
    "queues.redrive": ("nowhere", ItemFilter(), "r", 1),
    "queues.purge_dead": ("nowhere", ItemFilter(), 1),
    "queues.counts": (["q", "nowhere"], False),
    "queues.consolidate": (["nowhere"],),
    "queues.logged_errors": ("nowhere", None, 9, 1),
    "queues.samples": ("nowhere", 0, 1),
    "queues.maintain": ("nowhere", 1),
    "queues.freeze": ("nowhere", 1000, "stopped"),
}


class QueueLifecycleContract(QueueContract):
    """Queues are created, found, changed, paused and dropped."""

    def test_a_new_queue_has_the_defaults(self, q: Queue, clock: FakeClock) -> None:
        """All of them, and it is not paused."""
        info = q.create()
        assert (info.name, info.settings) == ("q", DEFAULTS)
        assert (info.is_paused, info.paused_by, info.created_at) == (False, None, clock.now)

    def test_a_new_queue_can_differ_from_the_defaults(self, ops: StoreOps, q: Queue) -> None:
        """In the given settings."""
        info = q.create(
            discipline="lifo", lease=9, backoff=Backoff(first=2), dead_to=("a", "b"), keep=5
        )
        settings = info.settings
        assert (settings.discipline, settings.lease) == ("lifo", 9)
        assert (settings.backoff, settings.dead_to) == (Backoff(first=2), ("a", "b"))
        assert (settings.keep, settings.max_crashes) == (5, DEFAULTS.max_crashes)
        assert ops.queues.info("q") == info

    def test_create_returns_an_existing_queue(self, q: Queue, clock: FakeClock) -> None:
        """Settings that are given change it, as an update does."""
        first = q.create(lease=9)
        clock.advance(1)
        assert q.create() == first
        assert q.create(lease=9) == first
        changed = q.create(max_crashes=7)
        assert (changed.settings.lease, changed.settings.max_crashes) == (9, 7)
        assert changed.version == first.version + 1

    def test_create_can_insist_on_a_new_queue(self, ops: StoreOps, q: Queue) -> None:
        """An existing queue is then an error, and stays as it is."""
        first = ops.queues.create("q", {}, True)
        with pytest.raises(QueueExists) as caught:
            ops.queues.create("q", {"lease": 9}, True)
        assert caught.value.queue == "q"
        assert ops.queues.info("q") == first

    @pytest.mark.parametrize(
        "changes",
        [{"colour": "red"}, {"max_attempts": 0}, {"discipline": "random"}, {"keep": "some"}],
        ids=str,
    )
    def test_invalid_settings_are_refused(self, ops: StoreOps, q: Queue, changes: Any) -> None:
        """Nothing is created or changed."""
        with pytest.raises(InvalidOption):
            ops.queues.create("r", changes, False)
        with pytest.raises(UnknownQueue):
            ops.queues.info("r")
        before = q.create()
        for change in (ops.queues.update, lambda name, wanted: ops.queues.set_defaults(wanted)):
            with pytest.raises(InvalidOption):
                change("q", {"lease": 5, **changes})
        assert ops.queues.info("q") == before
        assert ops.queues.defaults() == DEFAULTS

    def test_dead_letter_queues_are_added_one_by_one(self, ops: StoreOps, q: Queue) -> None:
        """Each new one raises the version; one that is already listed does not. Invalid ones are
        refused."""
        version = q.create(dead_to=("r",)).version
        ops.queues.add_dead_queue("q", "s")
        info = ops.queues.add_dead_queue("q", "r")
        assert (info.settings.dead_to, info.version) == (("r", "s"), version + 1)
        with pytest.raises(HeadraceError):
            ops.queues.add_dead_queue("q", "no/good")
        assert ops.queues.info("q") == info

    @pytest.mark.parametrize("operation", NAMING)
    def test_an_unknown_queue_is_an_error(self, ops: StoreOps, q: Queue, operation: str) -> None:
        """In every operation that names a queue and does not create it."""
        q.create()
        with pytest.raises(UnknownQueue) as caught:
            attrgetter(operation)(ops)(*NAMING[operation])
        assert caught.value.queue == "nowhere"
        assert [info.name for info in ops.queues.list("", "", 10)] == ["q"]

    def test_queues_are_listed_by_name(self, ops: StoreOps) -> None:
        """In code point order, in pages, by prefix."""
        for name in ("b-2", "a", "b_1", "B", "b-10"):
            Queue(ops, name).create()
        listed = [info.name for info in ops.queues.list("", "", 10)]
        assert listed == ["B", "a", "b-10", "b-2", "b_1"]
        assert [info.name for info in ops.queues.list("b", "", 2)] == ["b-10", "b-2"]
        assert [info.name for info in ops.queues.list("b", "b-2", 2)] == ["b_1"]
        assert [info.name for info in ops.queues.list("b_", "", 9)] == ["b_1"]

    def test_the_version_grows_with_each_change(self, q: Queue) -> None:
        """Only if a setting differs."""
        first = q.create()
        second = q.update(lease=5, max_crashes=9)
        assert second.version == first.version + 1
        assert q.update(lease=5) == second
        assert q.update() == second
        third = q.update(lease=6)
        assert (third.version, third.settings.max_crashes) == (first.version + 2, 9)

    def test_changed_settings_apply_to_existing_items(self, q: Queue, clock: FakeClock) -> None:
        """To those that are pending or in flight."""
        q.fill(2)
        first, second = q.claim(2)
        q.settle(second, "release")
        q.update(max_attempts=1, lease=5)
        assert q.settle(first, "reject").state == "dead"
        assert q.claim_one().lease_until == clock.now + 5000

    @pytest.mark.parametrize("before", ORDERS)
    @pytest.mark.parametrize("after", ORDERS)
    def test_a_new_discipline_reorders_pending_items(
        self, q: Queue, before: Any, after: Any
    ) -> None:
        """Later items join that order."""
        q.create(discipline=before)
        mixed(q)
        q.update(discipline=after)
        assert payloads(q.claim(2)) == ORDERS[after][:2]
        q.push(doc(6, priority=-9), doc(7, priority=99))
        rest = ORDERS[after][2:]
        expected = {"fifo": [*rest, 6, 7], "lifo": [7, 6, *rest], "priority": [7, *rest, 6]}
        assert q.claim_all() == expected[after]

    def test_a_released_item_finds_its_place_in_the_new_order(self, q: Queue) -> None:
        """It stands where it would have stood."""
        q.create(discipline="fifo")
        q.fill(4)
        q.claim_one()
        item = q.claim_one()
        q.update(discipline="lifo")
        q.settle(item, "release")
        assert q.claim_all() == [3, 2, 1]

    def test_an_update_wakes_waiters(self, ops: StoreOps, q: Queue) -> None:
        """The order may have changed, or a freeze may have ended."""
        q.create()
        waiter = ops.store.waiter("queue/q")
        try:
            q.update(lease=5)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()

    def test_a_queue_is_paused_until_it_is_resumed(self, ops: StoreOps, q: Queue) -> None:
        """Both calls may be repeated. The version stays, since the settings do."""
        before = q.create()
        paused = ops.queues.pause("q", "ann")
        assert (paused.is_paused, paused.paused_by) == (True, "ann")
        assert ops.queues.pause("q", "bob") == paused
        assert ops.queues.info("q") == paused
        assert ops.queues.resume("q") == before
        assert ops.queues.resume("q") == before

    def test_an_update_does_not_resume_a_queue(self, ops: StoreOps, q: Queue) -> None:
        """The pause had a reason of its own."""
        q.create()
        ops.queues.pause("q", "ann")
        info = q.update(lease=5)
        assert (info.is_paused, info.paused_by) == (True, "ann")

    def test_a_resumed_queue_wakes_waiters(self, ops: StoreOps, q: Queue) -> None:
        """It may have many due items."""
        q.create()
        ops.queues.pause("q", None)
        waiter = ops.store.waiter("queue/q")
        try:
            ops.queues.resume("q")
            assert ops.is_woken(waiter)
        finally:
            waiter.close()

    def test_dropping_a_queue_deletes_all_its_data(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Items, history, error log, samples and used subjects. Other queues are not affected."""
        q.create(unique="forever", keep="all")
        Queue(ops, "r").fill(1)
        q.push(*(doc(n, subject=str(n)) for n in range(4)), doc("later", delay=1000))
        for kind in ("complete", "kill", "reject"):
            q.end(kind)
        ops.queues.maintain("q", 10)
        q.claim_one()
        assert ops.queues.drop("q", False) == 3
        with pytest.raises(UnknownQueue):
            ops.queues.info("q")
        q.create(unique="forever", keep="all")
        assert (q.counts().total, q.counts().entered, q.errors()) == (0, 0, [])
        assert (q.dead(), ops.queues.samples("q", 0, 10)) == ([], [])
        assert q.push(doc(9, subject="0")).notes == ()
        assert Queue(ops, "r").claim_all() == [0]

    @pytest.mark.parametrize("keep_data", [True, False])
    def test_claims_on_a_dropped_queue_are_lost(
        self, ops: StoreOps, q: Queue, keep_data: bool
    ) -> None:
        """This also holds if a queue of that name is created again."""
        q.fill(1)
        item = q.claim_one(token="mine")
        ops.queues.drop("q", keep_data)
        assert q.settle(item, "complete").state == "lost"
        q.create()
        assert ops.queues.extend("q", "mine", [item.id], 1000) == []
        assert q.settle(item, "complete").state == "lost"

    def test_the_items_of_a_dropped_queue_can_be_kept(self, ops: StoreOps, q: Queue) -> None:
        """A queue created under that name has them. Items that were in flight are pending,
        otherwise unchanged."""
        q.create(keep="all", lease=9)
        everything = q.push("a", "b", doc("c", delay=1000), "d").ids
        q.end("complete")
        q.claim_one()
        assert ops.queues.drop("q", True) == 3
        with pytest.raises(UnknownQueue):
            q.claim_response()
        assert ops.queues.list("", "", 10) == []
        assert ops.queues.counts(None, False) == []
        assert q.create().settings.lease == DEFAULTS.lease
        assert q.item(everything[1]).attempts == 0
        assert ids(q.in_state(State.COMPLETED)) == [everything[0]]
        assert q.claim_all() == ["b", "d"]
        assert q.counts().total == 4

    @pytest.mark.parametrize("before", ORDERS)
    @pytest.mark.parametrize("after", ORDERS)
    def test_kept_items_are_in_the_order_of_the_new_queue(
        self, ops: StoreOps, q: Queue, before: Any, after: Any
    ) -> None:
        """Whatever the discipline of the old queue was."""
        q.create(discipline=before)
        mixed(q)
        ops.queues.drop("q", True)
        q.create(discipline=after)
        assert q.claim_all() == ORDERS[after]

    def test_changed_defaults_apply_to_new_queues(self, ops: StoreOps, q: Queue) -> None:
        """Settings that are not given stay."""
        q.create()
        ops.queues.set_defaults({"lease": 9})
        wanted = ops.queues.set_defaults({"max_crashes": 7})
        assert (wanted.lease, wanted.max_crashes) == (9, 7)
        assert ops.queues.defaults() == wanted
        assert ops.queues.info("q").settings == DEFAULTS
        assert Queue(ops, "r").create(lease=8).settings.max_crashes == 7
        assert ops.queues.info("r").settings.lease == 8
