"""Collection and maintenance."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core import scans
from headrace.errors import InvalidOption, InvalidTopicName, ProcOvertaken, UnknownSeq, UnknownTopic
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, fill, seqs

HOUR = 3600


class CollectionContract(Contract):
    """Old records go when they are told to, and never under a proc's feet in silence."""

    def _aged(self, hr: Any, clock: FakeClock, count: int = 10) -> None:
        """Records an hour apart from now; one commit each."""
        for n in range(count):
            hr.commit("t", {"n": n})
        clock.advance(HOUR)

    def _pass(self, proc: Any, *counts: int) -> None:
        for count in counts:
            proc.claim(count=count).ack()

    def test_nothing_is_collected_unless_asked_for(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock)
        assert hr.maintain(force=True).collected == ()
        assert hr.length("t") == 10

    def test_without_procs_age_alone_decides(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 4)
        fill(hr, 2)
        info = hr.keep("t", min_age=30)
        assert (info.min_age, info.max_age) == (30.0, None)
        [done] = hr.maintain(force=True).collected
        assert (done.from_seq, done.first_seq, done.overtaken) == (0, 4, ())
        assert seqs(hr.range("t")) == [4, 5]
        assert hr.length("t") == 2
        assert hr.topic_info("t").next_seq == 6

    def test_the_age_is_exact(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        hr.keep("t", min_age=30)
        clock.advance(29.999)
        assert hr.maintain(force=True).collected == ()
        clock.advance(0.001)
        assert len(hr.maintain(force=True).collected) == 1

    def test_a_proc_keeps_its_last_two_claims(self, hr: Any, clock: FakeClock) -> None:
        """PipeProc's rule: with claims C1, C2, C3 made, everything before C2 goes."""
        self._aged(hr, clock)
        proc = hr.proc("p", topic="t")
        hr.keep("t")
        hr.maintain(force=True)
        assert hr.topic_info("t").first_seq == 0
        self._pass(proc, 2, 3)
        hr.maintain(force=True)
        assert hr.topic_info("t").first_seq == 0
        proc.claim(count=1)
        hr.maintain(force=True)
        assert hr.topic_info("t").first_seq == 2

    def test_the_slowest_proc_decides_disabled_or_not(self, hr: Any, clock: FakeClock) -> None:
        """PipeProc lost the records of lagging and of disabled procs."""
        self._aged(hr, clock)
        fast, slow = hr.proc("fast", topic="t"), hr.proc("slow", topic="t")
        self._pass(fast, 4, 4, 2)
        self._pass(slow, 1, 1)
        slow.disable()
        hr.keep("t")
        hr.maintain(force=True)
        assert hr.topic_info("t").first_seq == 0
        slow.resume()
        self._pass(slow, 3)
        hr.maintain(force=True)
        assert hr.topic_info("t").first_seq == 1
        assert seqs(slow.claim(count=9)) == [5, 6, 7, 8, 9]

    def test_an_idle_proc_at_the_end_keeps_nothing(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock)
        proc = hr.proc("p", topic="t", offset="$>")
        hr.keep("t")
        hr.maintain(force=True)
        assert hr.topic_info("t").first_seq == 10
        assert hr.range("t") == []
        assert hr.length("t") == 0
        fill(hr, 1)
        assert seqs(proc.claim()) == [10]

    def test_records_inside_a_batch_go_exactly(self, hr: Any, clock: FakeClock) -> None:
        """The floor may lie in the middle of a stored row."""
        fill(hr, 10)
        clock.advance(HOUR)
        proc = hr.proc("p", topic="t")
        self._pass(proc, 3, 2, 1)
        hr.keep("t")
        hr.maintain(force=True)
        assert seqs(hr.range("t")) == [3, 4, 5, 6, 7, 8, 9]
        assert seqs(hr.revrange("t")) == [9, 8, 7, 6, 5, 4, 3]
        assert hr.length("t") == 7

    def test_what_is_collected_is_not_found(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 4)
        fill(hr, 2)
        hr.keep("t")
        hr.maintain(force=True)
        for read in (lambda: hr.range("t", ":3"), lambda: hr.revrange("t", None, ":0")):
            with pytest.raises(UnknownSeq, match="it holds :4 to :5"):
                read()
        assert seqs(hr.range("t", start="1")) == [4, 5]
        assert hr.proc("new", topic="t").inspect().position == 4
        assert seqs(hr.proc("new").claim()) == [4]
        assert seqs(hr.proc("by-time", topic="t", offset="1").claim()) == [4]

    def test_a_scan_that_is_overtaken_says_so(
        self, hr: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An iteration in the middle of what was collected does not skip in silence."""
        monkeypatch.setattr(scans, "PAGE_RECORDS", 2)
        self._aged(hr, clock)
        records = hr.iterate("t")
        assert next(records).seq == 0
        hr.keep("t")
        hr.maintain(force=True)
        with pytest.raises(UnknownSeq):
            list(records)

    def test_max_age_asks_nobody_and_the_proc_is_told(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 6)
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        self._pass(proc, 2)
        hr.keep("t", min_age=None, max_age=60)
        [done] = hr.maintain(force=True).collected
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
            hr.available_proc([proc])
        proc.seek(">")
        assert seqs(proc.claim(count=9)) == [6, 7]

    def test_max_age_spares_what_is_young(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 3)
        hr.keep("t", min_age=None, max_age=60)
        clock.advance(59)
        assert hr.maintain(force=True).collected == ()

    def test_a_claim_that_was_out_can_still_be_acked(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 4)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=2)
        hr.keep("t", max_age=60)
        hr.maintain(force=True)
        claim.ack()
        with pytest.raises(ProcOvertaken, match=":2 to :3"):
            proc.claim() or fill(hr, 1) or proc.claim()

    def test_numbers_go_on_after_everything_is_gone(self, hr: Any, clock: FakeClock) -> None:
        self._aged(hr, clock, 3)
        hr.keep("t")
        hr.maintain(force=True)
        assert [info.name for info in hr.topics()] == ["t"]
        assert hr.commit("t", {}).endswith("-3")
        assert seqs(hr.range("t")) == [3]

    def test_collection_can_be_ended(self, hr: Any, clock: FakeClock) -> None:
        hr.commit("t", {})
        hr.keep("t")
        hr.keep("t", min_age=None)
        clock.advance(HOUR)
        assert hr.maintain(force=True).collected == ()

    def test_it_is_done_by_one_at_a_time_and_not_too_often(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        self._aged(hr, clock, 3)
        hr.keep("t")
        other = connect()
        assert not hr.maintain().is_skipped
        assert other.maintain().is_skipped
        clock.advance(29.999)
        assert hr.maintain().is_skipped
        clock.advance(0.001)
        assert not other.maintain().is_skipped
        assert not hr.maintain(force=True).is_skipped

    def test_live_procs_and_keys_run_out(self, hr: Any, clock: FakeClock) -> None:
        live = hr.live("t")
        with live:
            clock.advance(HOUR - 1)
            assert hr.maintain(force=True).expired_procs == ()
            clock.advance(1)
            assert hr.maintain(force=True).expired_procs == (live.name,)
        assert hr.procs() == []

    def test_a_live_proc_that_is_used_stays(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 5)
        with hr.live("t") as live:
            for _ in range(4):
                clock.advance(HOUR / 2)
                hr.proc(live.name).claim().ack()
                assert hr.maintain(force=True).expired_procs == ()

    def test_bad_input(self, hr: Any) -> None:
        with pytest.raises(UnknownTopic):
            hr.keep("t")
        with pytest.raises(InvalidTopicName):
            hr.keep("no good")
        hr.commit("t", {})
        for ages in ({"min_age": 0}, {"min_age": -1}, {"max_age": "old"}):
            with pytest.raises(InvalidOption) as caught:
                hr.keep("t", **ages)
            assert caught.value.option == next(iter(ages))
        assert hr.topic_info("t").min_age is None
