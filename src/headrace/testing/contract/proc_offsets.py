"""Where a proc starts."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import (
    InvalidOption,
    InvalidPosition,
    InvalidProcName,
    InvalidTopicName,
    ProcNameTaken,
    UnknownProc,
    UnknownSeq,
)
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract, fill, seqs


class OffsetContract(Contract):
    """Making procs, and the record they hand out first."""

    @pytest.fixture
    def t0(self, hr: Any, clock: FakeClock) -> int:
        """Records 0-2 at T and 3-5 at T+1; the clock stands at T+1."""
        first = clock.now
        fill(hr, 3)
        clock.advance(0.001)
        fill(hr, 3)
        return first

    @pytest.mark.parametrize(
        ("offset", "expected"),
        [
            (None, [0, 1, 2, 3, 4, 5]),
            (">", [0, 1, 2, 3, 4, 5]),
            (":0", [1, 2, 3, 4, 5]),
            (":4", [5]),
            ("T", [0, 1, 2, 3, 4, 5]),
            ("T+1", [3, 4, 5]),
            ("T-0", [1, 2, 3, 4, 5]),
            ("T-2", [3, 4, 5]),
            ("T+1-3", [4, 5]),
            ("T+1-1", [3, 4, 5]),
        ],
    )
    def test_exact_offsets_mean_after_and_timestamps_mean_from(
        self, hr: Any, t0: int, offset: str | None, expected: list[int]
    ) -> None:
        if offset and offset.startswith("T"):
            ts, dash, seq = offset.removeprefix("T").partition("-")
            offset = f"{t0 + int(ts or 0)}{dash}{seq}"
        proc = hr.proc("p", topic="t", offset=offset)
        assert seqs(proc.claim(count=100)) == expected

    @pytest.mark.parametrize("offset", ["$>", ":5"])
    def test_an_offset_at_the_end_waits_for_new_records(
        self, hr: Any, t0: int, offset: str
    ) -> None:
        proc = hr.proc("p", topic="t", offset=offset)
        assert proc.claim() is None
        fill(hr, 2)
        assert seqs(proc.claim(count=10)) == [6, 7]

    def test_new_means_by_number_not_by_time(self, hr: Any, t0: int, clock: FakeClock) -> None:
        """Records of the very millisecond in which the proc is made are old if they were
        there, and new if they come later, also when the clock steps back."""
        proc = hr.proc("p", topic="t", offset="$>")
        clock.advance(-10)
        fill(hr, 1)
        assert seqs(proc.claim(count=10)) == [6]

    def test_a_time_to_come_waits_for_it(self, hr: Any, t0: int, clock: FakeClock) -> None:
        proc = hr.proc("p", topic="t", offset=str(clock.now + 1000))
        fill(hr, 1)
        assert proc.claim() is None
        assert proc.lag().records == 0
        clock.advance(1)
        fill(hr, 2)
        assert seqs(proc.claim(count=10)) == [7, 8]

    def test_an_id_to_come_is_passed_when_it_comes(
        self, hr: Any, t0: int, clock: FakeClock
    ) -> None:
        """Also in the millisecond of the newest record."""
        proc = hr.proc("p", topic="t", offset=f"{clock.now}-6")
        fill(hr, 1)
        assert proc.claim() is None
        fill(hr, 1)
        assert seqs(proc.claim(count=9)) == [7]

    def test_a_topic_may_come_after_its_proc(self, hr: Any, clock: FakeClock) -> None:
        procs = [
            hr.proc(f"p{n}", topic="later", offset=offset)
            for n, offset in enumerate([">", "$>", str(clock.now), "5-5"])
        ]
        assert [proc.claim() for proc in procs] == [None] * 4
        fill(hr, 2, "later")
        assert [seqs(proc.claim(count=9)) for proc in procs] == [[0, 1]] * 4

    @pytest.mark.parametrize("offset", [":6", ":99999999999999999999"])
    def test_a_number_that_does_not_exist_makes_no_proc(
        self, hr: Any, t0: int, offset: str
    ) -> None:
        """PipeProc kept the broken proc."""
        with pytest.raises(UnknownSeq):
            hr.proc("p", topic="t", offset=offset)
        with pytest.raises(UnknownSeq):
            hr.proc("p", topic="never", offset=":0")
        assert hr.procs() == []

    @pytest.mark.parametrize("offset", ["", "<", ">>", "$", "abc", ":x", "1-", 3], ids=repr)
    def test_a_malformed_offset_makes_no_proc(self, hr: Any, offset: Any) -> None:
        with pytest.raises(InvalidPosition):
            hr.proc("p", topic="t", offset=offset)
        assert hr.procs() == []

    @pytest.mark.parametrize("name", ["", "a b", "a#b", "x" * 196, None], ids=repr)
    def test_a_bad_name_makes_no_proc(self, hr: Any, name: Any) -> None:
        with pytest.raises(InvalidProcName):
            hr.proc(name, topic="t")
        with pytest.raises(InvalidTopicName):
            hr.proc("p", topic="no good")
        assert hr.procs() == []

    def test_an_existing_proc_ignores_the_offset(self, hr: Any, t0: int) -> None:
        hr.proc("p", topic="t", offset=":2").claim().ack()
        again = hr.proc("p", topic="t", offset=">")
        assert seqs(again.claim(count=9)) == [4, 5]
        assert again.inspect().offset == ":2"

    def test_a_name_belongs_to_one_topic(self, hr: Any, t0: int) -> None:
        hr.proc("p", topic="t")
        with pytest.raises(ProcNameTaken) as caught:
            hr.proc("p", topic="other")
        assert caught.value.code == "proc_name_not_unique"
        assert caught.value.topic == "t"

    def test_a_reference_without_a_topic_needs_the_proc(self, hr: Any, t0: int) -> None:
        with pytest.raises(UnknownProc):
            hr.proc("p")
        with pytest.raises(InvalidOption):
            hr.proc("p", offset=">")
        hr.proc("p", topic="t")
        assert hr.proc("p").topic == "t"
        assert seqs(hr.proc("p").claim()) == [0]

    def test_two_procs_of_one_topic_are_independent(self, hr: Any, t0: int) -> None:
        one, two = hr.proc("one", topic="t"), hr.proc("two", topic="t")
        one.claim(count=4).ack()
        assert seqs(two.claim(count=2)) == [0, 1]
        assert seqs(one.claim(count=9)) == [4, 5]

    def test_settings_given_are_stored_also_on_an_existing_proc(self, hr: Any) -> None:
        info = hr.proc("p", topic="t").inspect()
        assert (info.max_reclaims, info.reclaim_timeout) == (10, 10.0)
        assert info.on_max_reclaims_reached == "disable"
        hr.proc("p", topic="t", max_reclaims=3)
        hr.proc("p", reclaim_timeout=None, on_max_reclaims_reached="continue")
        info = hr.proc("p", topic="t").inspect()
        assert (info.max_reclaims, info.reclaim_timeout) == (3, None)
        assert info.on_max_reclaims_reached == "continue"

    @pytest.mark.parametrize(
        "setting",
        [
            {"max_reclaims": 0},
            {"max_reclaims": -2},
            {"max_reclaims": "many"},
            {"max_reclaims": True},
            {"reclaim_timeout": 0},
            {"reclaim_timeout": -1},
            {"reclaim_timeout": "soon"},
            {"on_max_reclaims_reached": "explode"},
        ],
        ids=repr,
    )
    def test_a_bad_setting_is_refused(self, hr: Any, setting: dict[str, Any]) -> None:
        with pytest.raises(InvalidOption) as caught:
            hr.proc("p", topic="t", **setting)
        assert caught.value.option == next(iter(setting))
        assert hr.procs() == []
        proc = hr.proc("p", topic="t")
        with pytest.raises(InvalidOption):
            proc.update(**setting)
