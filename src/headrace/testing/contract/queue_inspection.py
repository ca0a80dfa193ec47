"""Inspection and administration of queues through the public client."""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.items import ClientInfo, WorkerRow
from headrace.errors import (
    InvalidBody,
    InvalidInput,
    InvalidOption,
    InvalidQueueName,
    ItemActive,
    QueueExists,
    SubjectTaken,
    UnknownItem,
    UnknownQueue,
)
from headrace.model.queues.items import State
from headrace.model.queues.settings import Backoff
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.queue_base import StoreOps
from headrace.testing.contract.queue_clients import NOON, at
from headrace.testing.sync_facade import SyncFacade

MINE = ClientInfo(id="c1", name="shop", host="here", pid=7)


def bare(thing: Any) -> Any:
    """The object behind a facade."""
    return thing._inner if isinstance(thing, SyncFacade) else thing


def beat(hr: Any, *workers: WorkerRow) -> None:
    """Send a heartbeat of a client and its workers."""
    StoreOps(hr).queues.heartbeat(MINE, list(workers))


def wait_until(hr: Any, condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for what happens beside the caller."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened in time"
        if isinstance(hr, SyncFacade):
            hr.pump()
        else:
            time.sleep(0.001)


class QueueInspectionContract(Contract):
    """The queue ``q`` exists and is empty."""

    @pytest.mark.parametrize("wrong", [object, 1.5, "a\0b", "\ud800"], ids=ascii)
    def test_a_wrong_argument_is_named(self, hr: Any, q: Any, wrong: Any) -> None:
        """Before it is sent: a database would say something about its tables or types."""
        calls = [
            lambda: hr.queues.list(prefix=wrong),
            lambda: hr.queues.list(after=wrong),
            lambda: hr.topics.list(prefix=wrong),
            lambda: hr.topics.list(after=wrong),
            lambda: q.items(after=wrong),
            lambda: q.items(limit=wrong),
            lambda: q.errors(item=wrong),
            lambda: q.dead.list(after=wrong),
            lambda: q.dead.list(fingerprint=wrong),
            lambda: q.item(wrong),
            lambda: q.settle(wrong),
            lambda: hr.settle("q", wrong),
        ]
        for call in calls:
            with pytest.raises(InvalidInput):
                call()

    @pytest.mark.parametrize("large", [2**63, 10**30], ids="{:.0e}".format)
    def test_a_number_that_is_too_large_is_named(self, hr: Any, q: Any, large: int) -> None:
        calls = [
            lambda: hr.queues.list(limit=large),
            lambda: hr.topics.list(limit=large),
            lambda: q.claim(large),
            lambda: q.items(limit=large),
            lambda: q.items(after=large),
            lambda: q.errors(limit=large),
            lambda: q.errors(item=large),
            lambda: q.samples(limit=large),
            lambda: q.dead.list(limit=large),
            lambda: q.dead.redrive(ids=[large]),
            lambda: hr.procs.create("p", "t", max_attempts=large),
        ]
        for call in calls:
            with pytest.raises(InvalidOption):
                call()
        for call in (q.item, q.why, q.cancel, q.retry):
            with pytest.raises(UnknownItem):
                call(large)

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("q")

    def test_references_to_one_queue_are_one_object(self, hr: Any, connect: Connect) -> None:
        first = bare(hr.queue("q"))
        assert (
            first
            is bare(hr.queues.create("q", exist_ok=True))
            is bare(hr.queues.create("q", lease="5m", exist_ok=True))
        )
        assert first is not bare(connect().queue("q"))
        assert bare(hr.queues.create("other")) is bare(hr.queues.create("other", exist_ok=True))

    def test_settings_in_words(self, hr: Any) -> None:
        hr.queues.create("q", lease="2m", keep=timedelta(days=1), dead_to="late", exist_ok=True)
        hr.queues.create("q", max_attempts=9, backoff=Backoff(first=2.0), exist_ok=True)
        [info] = hr.queues.list()
        settings = info.settings
        assert (settings.lease, settings.keep, settings.dead_to) == (120, 86400, ("late",))
        assert (settings.max_attempts, settings.backoff.first, info.version) == (9, 2.0, 2)
        hr.queues.create("q", exist_ok=True)
        assert hr.queues.list()[0].version == 2

    def test_workers_are_watched(self, hr: Any, connect: Connect) -> None:
        """A watch on one queue sees the workers of all clients: first those present, then each
        change."""
        mine = WorkerRow(id="w", client="c1", queue="q")
        other = connect()
        beat(other, mine, WorkerRow(id="elsewhere", client="c1", queue="r"))
        changes = iter(hr.admin.watch_workers("q", wait=0.3))
        first = next(changes)
        assert [worker.id for worker in first.workers] == ["w"]
        assert first.joined == first.workers
        assert first.all_running
        timer = threading.Timer(0.05, lambda: beat(other, replace(mine, current="stopped")))
        timer.start()
        second = next(changes)
        timer.join()
        assert [worker.current for worker in second.changed] == ["stopped"]
        assert (second.joined, second.left) == ((), ())
        assert second.all_stopped
        beat(other)
        third = next(changes)
        assert [worker.id for worker in third.left] == ["w"]
        assert third.workers == ()
        assert third.all_stopped
        assert not third.all_running
        # Nothing else happens.
        assert next(changes, None) is None

    def test_clients_are_watched(self, hr: Any, connect: Connect) -> None:
        changes = iter(hr.admin.watch_clients(wait=0.3))
        assert next(changes).clients == ()
        beat(connect(), WorkerRow(id="w", client="c1", queue="q"))
        assert [client.id for client in next(changes).joined] == ["c1"]
        StoreOps(hr).queues.unregister("c1")
        assert [client.id for client in next(changes).left] == ["c1"]
        assert list(changes) == []

    def test_a_silent_worker_has_left(self, hr: Any, clock: FakeClock) -> None:
        """A killed process sends no goodbye. Its row stays for a day."""
        beat(hr, WorkerRow(id="w", client="c1", queue="q"))
        clock.advance(15)
        changes, clients = (
            iter(hr.admin.watch_workers("q", wait=5)),
            iter(hr.admin.watch_clients(wait=5)),
        )
        assert [worker.id for worker in next(changes).workers] == ["w"]
        assert [client.id for client in next(clients).clients] == ["c1"]
        clock.advance(0.001)
        assert [worker.id for worker in next(changes).left] == ["w"]
        assert [client.id for client in next(clients).left] == ["c1"]
        first = next(iter(hr.admin.watch_workers("q", wait=0)))
        assert (first.workers, first.all_running) == ((), False)
        assert [worker.silent for worker in hr.admin.workers()] == [15.001]

    def test_a_wrong_watch_is_refused(self, hr: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.admin.watch_workers("q", wait=-1)
        with pytest.raises(InvalidQueueName):
            hr.admin.watch_workers("no/good")
        with pytest.raises(InvalidOption):
            hr.admin.watch_clients(wait="long")

    def test_an_unknown_event_is_refused(self, q: Any) -> None:
        with pytest.raises(InvalidOption, match="pushed"):
            q.on("pushd", print)

    def test_creating_an_existing_queue_is_refused(self, hr: Any, q: Any) -> None:
        with pytest.raises(QueueExists):
            hr.queues.create("q")
        with pytest.raises(InvalidQueueName):
            hr.queues.create("no/good", exist_ok=True)
        with pytest.raises(InvalidOption) as wrong:
            hr.queues.create("new", lease=0)
        assert wrong.value.option == "lease"
        with pytest.raises(InvalidOption):
            hr.queues.create("new", colour="red")
        assert [info.name for info in hr.queues.list()] == ["q"]

    def test_new_queues_have_the_stored_defaults(self, hr: Any, connect: Connect) -> None:
        assert hr.queues.defaults().max_attempts == 5
        hr.queues.set_defaults(max_attempts=2, reject_delay="1m")
        assert connect().queues.defaults().reject_delay == 60
        hr.push("made", 1)
        assert hr.queues.list(prefix="ma")[0].settings.max_attempts == 2

    def test_dropping_a_queue(self, hr: Any, q: Any) -> None:
        q.push_many([1, 2])
        assert q.drop(keep_data=True) == 2
        assert hr.queues.list() == []
        assert len(hr.queues.create("q", exist_ok=True).claim(5)) == 2
        assert hr.queue("q").drop() == 2
        with pytest.raises(UnknownQueue):
            hr.queue("q").drop()

    def test_pausing_a_queue(self, hr: Any, q: Any) -> None:
        q.push(1)
        assert q.pause(by="ann").paused_by == "ann"
        assert q.claim() == []
        assert not q.resume().is_paused
        assert hr.queue("q").pause().paused_by
        assert hr.queue("q").resume().paused_by is None
        assert len(q.claim()) == 1

    def test_the_stats_of_queues(self, hr: Any, q: Any, clock: FakeClock) -> None:
        q.push_many([1, 2, 3])
        q.push(4, delay=60)
        clock.advance(2)
        [item] = q.claim()
        item.reject("no", delay=60)
        stats = q.stats()
        assert (stats.planned, stats.pending, stats.active, stats.total) == (2, 2, 0, 4)
        assert (stats.entered, stats.picked, stats.rejected, stats.errors) == (4, 1, 1, 1)
        assert stats.oldest_due == 2.0
        hr.push("other", 1)
        assert [one.queue for one in hr.queues.stats()] == ["other", "q"]
        assert [one.total for one in hr.queues.stats(["q", "other"])] == [1, 4]
        assert hr.queues.stats("q", exact=True)[0].is_computed
        assert hr.queues.stats(["q"], store=True)[0].pending == 2
        with pytest.raises(UnknownQueue):
            hr.queues.stats("none")

    def test_a_queue_without_running_counts_is_counted_on_demand(self, hr: Any) -> None:
        q = hr.queues.create("q", metrics=False)
        q.push(1)
        assert (q.stats().is_computed, q.stats().pending, q.stats().entered) == (True, 1, 0)

    def test_events_of_a_queue(self, hr: Any, q: Any) -> None:
        """Listeners get the events of their own client, in order. A listener that raises disturbs
        no other."""
        heard: list[Any] = []
        q.on("pushed", lambda result: 1 / 0)
        end = q.on("pushed", lambda result: heard.append(("pushed", result.pushed)))
        for name in ("paused", "resumed", "updated", "dropped"):
            q.on(name, lambda value, name=name: heard.append(name))
        hr.push("q", 1)
        q.push_many([2, 3])
        end()
        q.push(4)
        q.pause()
        q.resume()
        q.update(keep="all")
        q.drop()
        assert heard == [
            ("pushed", 1),
            ("pushed", 2),
            "paused",
            "resumed",
            "updated",
            "dropped",
        ]
        with pytest.raises(InvalidOption):
            q.on("pushed", "not callable")

    def test_events_of_all_clients(self, hr: Any, q: Any, connect: Connect) -> None:
        """With ``scope="all"`` listeners get what any client does from then on, also in
        transactions, until they are removed."""
        other = connect()
        heard: list[tuple[str, int]] = []
        q.push(0)
        ends = [
            q.on(event, lambda change: heard.append((change.event, change.count)), scope="all")
            for event in ("pushed", "updated", "paused", "resumed", "dropped")
        ]
        theirs = other.queue("q")
        push = self._push_in_transaction if hr.capabilities.supports_transactions else self._push
        for act, expected in (
            (lambda: theirs.push_many([1, 2]), ("pushed", 2)),
            (lambda: q.push(3), ("pushed", 1)),
            (theirs.pause, ("paused", 0)),
            (theirs.resume, ("resumed", 0)),
            (lambda: theirs.update(keep="all"), ("updated", 0)),
            (lambda: push(other), ("pushed", 1)),
            (theirs.drop, ("dropped", 0)),
        ):
            act()
            wait_until(hr, functools.partial(operator.eq, heard, [expected]))
            heard.clear()
        for end in ends:
            end()
        theirs.push(1)
        assert not bare(hr)._watches
        for event, scope in (("data", "all"), ("pushed", "some"), ("pushd", "all")):
            with pytest.raises(InvalidOption):
                q.on(event, print, scope=scope)

    def _push_in_transaction(self, hr: Any) -> None:
        with hr.transaction() as tx:
            self._push(tx)

    def _push(self, hr: Any) -> None:
        hr.push("q", "inside")

    def test_the_watch_of_a_queue_ends_with_its_client(self, connect: Connect) -> None:
        """Also if it was never created."""
        hr = connect()
        heard: list[Any] = []
        hr.queue("later").on("pushed", heard.append, scope="all")
        connect().push("later", 1)
        wait_until(hr, lambda: len(heard) == 1)
        assert (heard[0].queue, heard[0].count) == ("later", 1)
        hr.close()
        assert not bare(hr)._watches

    def test_items_are_listed(self, q: Any) -> None:
        ids = q.push_many(range(5)).ids
        assert [item.id for item in q.items(limit=2)] == list(ids[:2])
        assert [item.payload for item in q.items("pending", after=ids[1])] == [2, 3, 4]
        assert q.items(State.DEAD) == q.items("dead") == q.items(-1) == []
        for wrong in ("lost", 7):
            with pytest.raises(InvalidOption):
                q.items(wrong)
        with pytest.raises(InvalidOption):
            q.items(limit=0)

    def test_an_item_is_edited_retried_and_cancelled(self, q: Any, clock: FakeClock) -> None:
        q.push({"n": 1}, subject="s", delay=60)
        edited = q.edit("s", payload={"n": 2}, priority=4)
        assert (edited.payload, edited.priority) == ({"n": 2}, 4)
        assert edited.due_at == at(clock) + timedelta(seconds=60)
        assert q.edit(edited.id, delay="1h").due_at == at(clock) + timedelta(hours=1)
        assert q.edit("s", at=NOON).due_at == NOON
        assert q.retry("s").state == State.PENDING
        [item] = q.claim()
        for act in (q.cancel, q.retry, q.edit):
            with pytest.raises(ItemActive):
                act("s")
        item.reject("no")
        assert q.cancel("s").last_error.message == "no"
        for act in (q.cancel, q.retry, q.edit, q.item, q.why):
            with pytest.raises(UnknownItem):
                act("s")
            with pytest.raises(UnknownItem):
                act(item.id)
            with pytest.raises(InvalidBody):
                act("")
        with pytest.raises(InvalidOption):
            q.edit(1, at=NOON, delay=5)

    def test_a_dead_item_is_retried_unless_its_subject_is_taken(self, q: Any) -> None:
        q.push(1, subject="s")
        q.claim()[0].kill()
        dead = q.dead.get("s")
        q.push(2, subject="s")
        with pytest.raises(SubjectTaken):
            q.retry(dead.id)
        q.cancel("s")
        assert q.retry(dead.id).id == dead.id

    def test_why_an_item_waits(self, hr: Any, q: Any) -> None:
        q.push_many([1, 2], priority=5)
        q.push("mine", subject="s", priority=1)
        why = q.why("s")
        assert (why.state, why.before, why.due_in, why.workers) == ("pending", 2, 0.0, 0)
        assert "2 items are claimed before it, its priority is 1" in str(why)
        assert "no worker" in str(why)
        q.pause(by="ann")
        beat(hr, WorkerRow(id="w", client="c1", queue="q"))
        why = q.why("s")
        assert (why.is_paused, why.paused_by, why.is_frozen, why.workers) == (True, "ann", False, 1)
        assert "paused by ann" in str(why)
        q.resume()
        StoreOps(hr).queues.freeze("q", 60_000, "stopped")
        assert q.why("s").is_frozen
        assert "frozen until an update" in str(q.why("s"))

    def test_why_an_item_is_not_due_or_in_flight(self, q: Any, clock: FakeClock) -> None:
        q.push("mine", subject="s", delay=60)
        assert (q.why("s").due_in, q.why("s").state) == (60.0, "planned")
        assert "due in 60 s" in str(q.why("s"))
        clock.advance(60)
        assert (q.why("s").due_in, q.why("s").state) == (0.0, "pending")
        [item] = q.claim(lease=30)
        why = q.why(item.id)
        assert (why.state, why.before, why.lease_ends_in) == ("active", None, 30.0)
        assert why.leased_by == item.worker
        assert f"{item.worker} has claimed it, its lease ends in 30 s" in str(why)
        clock.advance(31)
        assert "ended 1 s ago" in str(q.why("s"))
        [item] = q.claim()
        item.reject(KeyError("order 7"), delay=5)
        assert q.why("s").last_error.type == "KeyError"
        assert "claimed 2 times, the last error was KeyError: 'order 7'" in str(q.why("s"))

    def test_why_an_item_ended(self, hr: Any) -> None:
        q = hr.queues.create("q", keep="all", exist_ok=True)
        q.push_many([1, 2])
        done, dead = q.claim(2)
        done.complete()
        dead.kill("poison")
        assert (q.why(done.id).state, "completed" in str(q.why(done.id))) == ("completed", True)
        why = q.why(dead.id)
        assert (why.state, why.last_error.message) == ("dead", "poison")
        assert "killed" in str(why)

    @needs("admin")
    def test_the_report_of_a_queue(self, hr: Any, q: Any, clock: FakeClock) -> None:
        hr.admin.maintain(force=True)
        q.push_many(range(12))
        clock.advance(10)
        items = q.claim(6)
        q.complete(items[:4])
        row = WorkerRow(id="w", client="c1", queue="q", rate=2.0, busy=1, done=4)
        beat(hr, row, WorkerRow(id="v", client="c1", queue="q", rate=1.0))
        report = q.info()
        assert (report.name, report.version, report.settings.keep) == ("q", 1, "none")
        assert (report.stats.pending, report.oldest_due, report.wait) == (6, 10.0, 10.0)
        assert (report.worker_rate, report.clears_in, report.rate) == (3.0, 2.0, 0.4)
        assert (report.is_paused, report.is_frozen) == (False, False)
        known = {worker.id: worker for worker in report.workers}["w"]
        assert (known.client, known.host, known.pid, known.rate) == ("shop", "here", 7, 2.0)
        assert known.seen_at == at(clock)
        clock.advance(16)
        report = q.info()
        assert (report.workers, len(report.silent_workers)) == ((), 2)
        assert (report.worker_rate, report.clears_in) == (0.0, None)
        assert [one.name for one in hr.queues.info()] == ["q"]
        assert [worker.id for worker in hr.admin.workers()] == sorted(["w", "v"])
        assert hr.admin.workers("other") == []
        [client] = hr.admin.clients()
        assert (client.name, client.started, client.seen) == ("shop", *[known.seen_at] * 2)
        with pytest.raises(UnknownQueue):
            hr.queues.info(["none"])

    @needs("admin")
    def test_metric_samples_are_read(self, hr: Any, q: Any, clock: FakeClock) -> None:
        for n in range(3):
            q.push(n)
            hr.admin.maintain(force=True)
            clock.advance(60)
        assert [sample.counts.pending for sample in q.samples()] == [1, 2, 3]
        assert q.samples()[-1].time == at(clock) - timedelta(seconds=60)
        since = at(clock) - timedelta(seconds=120)
        assert [sample.counts.pending for sample in q.samples(since=since)] == [2, 3]

    @needs("admin")
    def test_maintenance_includes_queues(self, hr: Any, clock: FakeClock) -> None:
        q = hr.queues.create("q", keep=60.0, exist_ok=True)
        hr.queues.create("idle")
        q.push_many(range(3))
        q.complete(q.claim(3))
        beat(hr)
        assert hr.admin.maintain(force=True).tended == ()
        clock.advance(60)
        report = hr.admin.maintain(force=True)
        assert [(tended.queue, tended.removed) for tended in report.tended] == [("q", 3)]
        assert report.forgotten_clients == ()
        clock.advance(24 * 3600)
        assert hr.admin.maintain(force=True).forgotten_clients == ("c1",)
        assert hr.admin.clients() == []
