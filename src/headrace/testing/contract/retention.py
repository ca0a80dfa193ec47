"""Retention of records, and maintenance of topics."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core import scans
from headrace.errors import InvalidOption, InvalidTopicName, ProcOvertaken, UnknownSeq, UnknownTopic
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, fill, seqs

HOUR = 3600


class RetentionContract(Contract):
    """Maintenance prunes old records by age, and a proc reports what it has missed."""

    needed_parts = frozenset({"admin"})

    def _aged(self, hr: Any, clock: FakeClock, count: int = 10) -> None:
        """Commit ``count`` records one by one, then advance the clock by an hour."""
        for n in range(count):
            hr.commit("t", {"n": n})
        clock.advance(HOUR)

    def _pass(self, proc: Any, *counts: int) -> None:
        for count in counts:
            proc.claim(count=count).ack()

    def test_records_are_kept_unless_a_retention_is_set(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock)
        assert hr.admin.maintain(force=True).collected == ()
        assert hr.topic("t").length() == 10

    def test_without_procs_age_alone_decides(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 4)
        fill(hr, 2)
        info = hr.topic("t").set_retention(min_age=30)
        assert (info.min_age, info.max_age) == (30.0, None)
        [done] = hr.admin.maintain(force=True).collected
        assert (done.from_seq, done.first_seq, done.overtaken) == (0, 4, ())
        assert seqs(hr.range("t")) == [4, 5]
        assert hr.topic("t").length() == 2
        assert hr.topic("t").info().next_seq == 6

    def test_a_store_wide_retention_applies_to_all_topics(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        """It also applies to topics that are created later. A topic with its own retention ignores
        it."""
        self._aged(hr, clock, 2)
        hr.commit("own", {})
        hr.topic("own").set_retention(min_age=2 * HOUR)
        kept = hr.topics.set_retention(min_age=30, interval=5)
        assert (kept.min_age, kept.max_age, kept.interval) == (30.0, None, 5.0)
        hr.procs.create("early", "empty", offset=">")
        hr.commit("later", {})
        assert [done.topic for done in hr.admin.maintain(force=True).collected] == ["t"]
        clock.advance(HOUR)
        # All clients share the interval.
        assert not connect().admin.maintain().is_skipped
        clock.advance(4.999)
        assert hr.admin.maintain().is_skipped
        clock.advance(0.001)
        assert not hr.admin.maintain().is_skipped
        assert [hr.topic(name).length() for name in ("t", "own", "later")] == [0, 1, 0]
        hr.topics.set_retention(min_age=None)
        hr.commit("t", {})
        clock.advance(HOUR)
        report = hr.admin.maintain(force=True)
        assert [done.topic for done in report.collected] == ["own"]
        assert report.interval == 30.0
        with pytest.raises(InvalidOption):
            hr.topics.set_retention(interval=None)

    def test_the_retention_age_is_exact(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        hr.topic("t").set_retention(min_age=30)
        clock.advance(29.999)
        assert hr.admin.maintain(force=True).collected == ()
        clock.advance(0.001)
        assert len(hr.admin.maintain(force=True).collected) == 1

    def test_a_proc_keeps_its_last_two_claims(self, hr: Any, clock: FakeClock) -> None:
        """After the claims C1, C2 and C3, everything before C2 is pruned."""
        self._aged(hr, clock)
        proc = hr.procs.create("p", "t")
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        assert hr.topic("t").info().first_seq == 0
        self._pass(proc, 2, 3)
        hr.admin.maintain(force=True)
        assert hr.topic("t").info().first_seq == 0
        proc.claim(count=1)
        hr.admin.maintain(force=True)
        assert hr.topic("t").info().first_seq == 2

    def test_the_slowest_proc_decides_disabled_or_not(self, hr: Any, clock: FakeClock) -> None:
        """A proc that lags keeps its records, also while it is disabled."""
        self._aged(hr, clock)
        fast, slow = hr.procs.create("fast", "t"), hr.procs.create("slow", "t")
        self._pass(fast, 4, 4, 2)
        self._pass(slow, 1, 1)
        slow.disable()
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        assert hr.topic("t").info().first_seq == 0
        slow.resume()
        self._pass(slow, 3)
        hr.admin.maintain(force=True)
        assert hr.topic("t").info().first_seq == 1
        assert seqs(slow.claim(count=9)) == [5, 6, 7, 8, 9]

    def test_an_idle_proc_at_the_end_keeps_nothing(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock)
        proc = hr.procs.create("p", "t", offset="$>")
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        assert hr.topic("t").info().first_seq == 10
        assert hr.range("t") == []
        assert hr.topic("t").length() == 0
        fill(hr, 1)
        assert seqs(proc.claim()) == [10]

    def test_pruning_may_end_inside_a_batch(self, hr: Any, clock: FakeClock) -> None:
        """The low-water mark may lie in the middle of a stored row."""
        fill(hr, 10)
        clock.advance(HOUR)
        proc = hr.procs.create("p", "t")
        self._pass(proc, 3, 2, 1)
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        assert seqs(hr.range("t")) == [3, 4, 5, 6, 7, 8, 9]
        assert seqs(hr.range("t", reverse=True)) == [9, 8, 7, 6, 5, 4, 3]
        assert hr.topic("t").length() == 7

    def test_pruned_records_cannot_be_read(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 4)
        fill(hr, 2)
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        for read in (lambda: hr.range("t", ":3"), lambda: hr.range("t", None, ":0", reverse=True)):
            with pytest.raises(UnknownSeq, match="it holds :4 to :5"):
                read()
        assert seqs(hr.range("t", start="1")) == [4, 5]
        assert hr.procs.create("new", "t").info().position == 4
        assert seqs(hr.proc("new").claim()) == [4]
        assert seqs(hr.procs.create("by-time", "t", offset="1").claim()) == [4]

    def test_an_iteration_overtaken_by_pruning_raises(
        self, hr: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An iteration over records that were just pruned never skips them silently."""
        monkeypatch.setattr(scans, "PAGE_RECORDS", 2)
        self._aged(hr, clock)
        records = hr.iterate("t")
        assert next(records).seq == 0
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        with pytest.raises(UnknownSeq):
            list(records)

    def test_max_age_prunes_unread_records_and_the_proc_reports_it(
        self, hr: Any, clock: FakeClock
    ) -> None:
        self._aged(hr, clock, 6)
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        self._pass(proc, 2)
        hr.topic("t").set_retention(min_age=None, max_age=60)
        [done] = hr.admin.maintain(force=True).collected
        assert (done.first_seq, done.overtaken) == (6, ("p",))
        for _ in range(2):
            with pytest.raises(ProcOvertaken, match=":2 to :5") as caught:
                proc.claim()
            assert (caught.value.code, caught.value.first, caught.value.last) == (
                "proc_overtaken",
                2,
                5,
            )
        with pytest.raises(ProcOvertaken):
            hr.procs.claim_any([proc])
        proc.seek(">")
        assert seqs(proc.claim(count=9)) == [6, 7]

    def test_max_age_keeps_younger_records(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 3)
        hr.topic("t").set_retention(min_age=None, max_age=60)
        clock.advance(59)
        assert hr.admin.maintain(force=True).collected == ()

    def test_a_claim_of_pruned_records_can_still_be_acked(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 4)
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=2)
        hr.topic("t").set_retention(max_age="1m")
        hr.admin.maintain(force=True)
        claim.ack()
        with pytest.raises(ProcOvertaken, match=":2 to :3"):
            proc.claim() or fill(hr, 1) or proc.claim()

    def test_numbers_continue_after_all_records_are_pruned(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 3)
        hr.topic("t").set_retention()
        hr.admin.maintain(force=True)
        assert [info.name for info in hr.topics.list()] == ["t"]
        assert hr.commit("t", {}).endswith("-3")
        assert seqs(hr.range("t")) == [3]

    def test_a_retention_can_be_removed(self, hr: Any, clock: FakeClock) -> None:
        hr.commit("t", {})
        hr.topic("t").set_retention()
        hr.topic("t").set_retention(min_age=None)
        clock.advance(HOUR)
        assert hr.admin.maintain(force=True).collected == ()

    def test_one_client_at_a_time_prunes_and_not_too_often(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        self._aged(hr, clock, 3)
        hr.topic("t").set_retention()
        other = connect()
        assert not hr.admin.maintain().is_skipped
        assert other.admin.maintain().is_skipped
        clock.advance(29.999)
        assert hr.admin.maintain().is_skipped
        clock.advance(0.001)
        assert not other.admin.maintain().is_skipped
        assert not hr.admin.maintain(force=True).is_skipped

    def test_unused_live_procs_and_old_keys_are_removed(self, hr: Any, clock: FakeClock) -> None:
        live = hr.live("t")
        with live:
            clock.advance(HOUR - 1)
            assert hr.admin.maintain(force=True).expired_procs == ()
            clock.advance(1)
            assert hr.admin.maintain(force=True).expired_procs == (live.name,)
        assert hr.procs.list() == []

    def test_a_live_proc_in_use_is_kept(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 5)
        with hr.live("t") as live:
            for _ in range(4):
                clock.advance(HOUR / 2)
                hr.proc(live.name).claim().ack()
                assert hr.admin.maintain(force=True).expired_procs == ()

    def test_bad_input(self, hr: Any) -> None:
        with pytest.raises(UnknownTopic):
            hr.topic("t").set_retention()
        with pytest.raises(InvalidTopicName):
            hr.topic("no good").set_retention()
        hr.commit("t", {})
        for ages in ({"min_age": 0}, {"min_age": -1}, {"max_age": "old"}):
            with pytest.raises(InvalidOption) as caught:
                hr.topic("t").set_retention(**ages)
            assert caught.value.option == next(iter(ages))
        assert hr.topic("t").info().min_age is None
