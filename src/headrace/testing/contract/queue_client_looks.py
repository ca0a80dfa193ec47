"""Queues as users look at them and look after them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.contract.items import ClientRow, WorkerRow
from headrace.errors import (
    CreateError,
    InvalidBody,
    InvalidOption,
    InvalidQueueName,
    ItemActive,
    QueueExists,
    RefError,
    SubjectTaken,
    UnknownItem,
    UnknownQueue,
)
from headrace.model.items import State
from headrace.model.queues import Backoff
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_base import Desk
from headrace.testing.contract.queue_clients import NOON, at
from headrace.testing.faces import BlockingFace

MINE = ClientRow(id="c1", name="shop", host="here", pid=7)


def bare(thing: Any) -> Any:
    """The object behind a face."""
    return thing._inner if isinstance(thing, BlockingFace) else thing


def beat(hr: Any, *workers: WorkerRow) -> None:
    """Say that a client and its workers are there."""
    Desk(hr).beat(MINE, list(workers))


class QueueLookContract(Contract):
    """A queue ``q`` is made; nothing is in it."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queue("q")

    def test_a_reference_is_one_object(self, hr: Any, connect: Connect) -> None:
        first = bare(hr.queue("q"))
        assert first is bare(hr.ref("q")) is bare(hr.queue("q", lock_duration="5m"))
        assert first is not bare(connect().queue("q"))
        assert bare(hr.create("other")) is bare(hr.ref("other"))

    def test_settings_in_words_and_by_fetchqs_names(self, hr: Any) -> None:
        hr.queue("q", lock_duration="2m", keep=timedelta(days=1), dead_to="late")
        hr.queue("q", deadThreshold=9, backoff=Backoff(first=2.0))
        [info] = hr.queues()
        settings = info.settings
        assert (settings.lock_duration, settings.keep, settings.dead_to) == (120, 86400, ("late",))
        assert (settings.dead_threshold, settings.backoff.first, info.version) == (9, 2.0, 2)
        hr.queue("q")
        assert hr.queues()[0].version == 2

    def test_what_exists_is_not_created(self, hr: Any, q: Any) -> None:
        with pytest.raises(QueueExists) as caught:
            hr.create("q")
        assert isinstance(caught.value, CreateError)
        with pytest.raises(InvalidQueueName) as refused:
            hr.ref("no good")
        assert isinstance(refused.value, RefError)
        with pytest.raises(InvalidOption) as wrong:
            hr.create("new", lock_duration=0)
        assert wrong.value.option == "lock_duration"
        with pytest.raises(InvalidOption):
            hr.create("new", colour="red")
        assert [info.name for info in hr.queues()] == ["q"]

    def test_new_queues_have_the_stored_defaults(self, hr: Any, connect: Connect) -> None:
        assert hr.queue_defaults().dead_threshold == 5
        hr.set_queue_defaults(dead_threshold=2, reject_delay="1m")
        assert connect().queue_defaults().reject_delay == 60
        hr.push("made", 1)
        assert hr.queues(prefix="ma")[0].settings.dead_threshold == 2

    def test_dropping(self, hr: Any, q: Any) -> None:
        q.push_many([1, 2])
        assert q.drop(keep_data=True) == 2
        assert hr.queues() == []
        assert len(hr.ref("q").claim(5)) == 2
        assert hr.drop("q") == 2
        with pytest.raises(UnknownQueue):
            hr.drop("q")
        assert hr.queue("q").stats().total == 0

    def test_pausing(self, hr: Any, q: Any) -> None:
        q.push(1)
        assert q.pause(by="ann").paused_by == "ann"
        assert q.claim() == []
        assert not q.resume().is_paused
        assert hr.pause("q").paused_by
        assert hr.resume("q").paused_by is None
        assert len(q.claim()) == 1

    def test_numbers(self, hr: Any, q: Any, clock: FakeClock) -> None:
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
        assert [one.queue for one in hr.stats()] == ["other", "q"]
        assert [one.total for one in hr.stats(["q", "other"])] == [1, 4]
        assert hr.compute_stats("q")[0].is_computed
        assert hr.consolidate_stats(["q"])[0].pending == 2
        with pytest.raises(UnknownQueue):
            hr.stats("none")

    def test_a_queue_that_keeps_no_numbers_is_counted(self, hr: Any) -> None:
        q = hr.create("q", metrics=False)
        q.push(1)
        assert (q.stats().is_computed, q.stats().pending, q.stats().entered) == (True, 1, 0)

    def test_events(self, hr: Any, q: Any) -> None:
        """Those of this client, in order; one who raises disturbs nobody."""
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

    def test_items(self, q: Any) -> None:
        ids = q.push_many(range(5)).ids
        assert [item.id for item in q.items(limit=2)] == list(ids[:2])
        assert [item.payload for item in q.items("pending", after=ids[1])] == [2, 3, 4]
        assert q.items(State.DEAD) == q.items("dead") == q.items(-1) == []
        for wrong in ("lost", 7):
            with pytest.raises(InvalidOption):
                q.items(wrong)
        with pytest.raises(InvalidOption):
            q.items(limit=0)

    def test_one_item_by_hand(self, q: Any, clock: FakeClock) -> None:
        q.push({"n": 1}, subject="s", delay=60)
        edited = q.edit("s", payload={"n": 2}, priority=4)
        assert (edited.payload, edited.priority) == ({"n": 2}, 4)
        assert edited.next_execution == at(clock) + timedelta(seconds=60)
        assert q.edit(edited.id, delay="1h").next_execution == at(clock) + timedelta(hours=1)
        assert q.edit("s", at=NOON).next_execution == NOON
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
        dead = q.dead.show("s")
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
        assert "2 items are handed out before it, its priority is 1" in str(why)
        assert "no worker" in str(why)
        q.pause(by="ann")
        beat(hr, WorkerRow(id="w", client="c1", queue="q"))
        why = q.why("s")
        assert (why.is_paused, why.paused_by, why.is_held, why.workers) == (True, "ann", False, 1)
        assert "paused by ann" in str(why)
        q.resume()
        Desk(hr).hold_queue("q", 60_000, "stopped")
        assert q.why("s").is_held
        assert "held until an update" in str(q.why("s"))

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
        assert f"{item.worker} has it, its lease ends in 30 s" in str(why)
        clock.advance(31)
        assert "ended 1 s ago" in str(q.why("s"))
        [item] = q.claim()
        item.reject(KeyError("order 7"), delay=5)
        assert q.why("s").last_error.type == "KeyError"
        assert "handed out 2 times, the last error was KeyError: 'order 7'" in str(q.why("s"))

    def test_why_an_item_ended(self, hr: Any) -> None:
        q = hr.queue("q", keep="all")
        q.push_many([1, 2])
        done, dead = q.claim(2)
        done.complete()
        dead.kill("poison")
        assert (q.why(done.id).state, "completed" in str(q.why(done.id))) == ("completed", True)
        why = q.why(dead.id)
        assert (why.state, why.last_error.message) == ("dead", "poison")
        assert "killed" in str(why)

    def test_a_queue_as_a_whole(self, hr: Any, q: Any, clock: FakeClock) -> None:
        hr.maintain(force=True)
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
        assert (report.is_paused, report.is_held) == (False, False)
        known = {worker.id: worker for worker in report.workers}["w"]
        assert (known.client, known.host, known.pid, known.rate) == ("shop", "here", 7, 2.0)
        assert known.seen_at == at(clock)
        clock.advance(16)
        report = q.info()
        assert (report.workers, len(report.silent_workers)) == ((), 2)
        assert (report.worker_rate, report.clears_in) == (0.0, None)
        assert [one.name for one in hr.info()] == ["q"]
        assert [worker.id for worker in hr.workers()] == sorted(["w", "v"])
        assert hr.workers("other") == []
        [client] = hr.clients()
        assert (client.name, client.started, client.seen) == ("shop", *[known.seen_at] * 2)
        with pytest.raises(UnknownQueue):
            hr.info(["none"])

    def test_the_series(self, hr: Any, q: Any, clock: FakeClock) -> None:
        for n in range(3):
            q.push(n)
            hr.maintain(force=True)
            clock.advance(60)
        assert [sample.counts.pending for sample in q.samples()] == [1, 2, 3]
        assert q.samples()[-1].time == at(clock) - timedelta(seconds=60)
        since = at(clock) - timedelta(seconds=120)
        assert [sample.counts.pending for sample in q.samples(since=since)] == [2, 3]

    def test_maintenance_tends_queues(self, hr: Any, clock: FakeClock) -> None:
        q = hr.queue("q", keep=60.0)
        hr.queue("idle")
        q.push_many(range(3))
        q.complete(q.claim(3))
        beat(hr)
        assert hr.maintain(force=True).tended == ()
        clock.advance(60)
        report = hr.maintain(force=True)
        assert [(tended.queue, tended.removed) for tended in report.tended] == [("q", 3)]
        assert report.forgotten_clients == ()
        clock.advance(24 * 3600)
        assert hr.maintain(force=True).forgotten_clients == ("c1",)
        assert hr.clients() == []
