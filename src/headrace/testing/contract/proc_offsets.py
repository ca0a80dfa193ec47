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


class ProcOffsetContract(Contract):
    """Creating procs, and the first record they deliver."""

    @pytest.fixture
    def t0(self, hr: Any, clock: FakeClock) -> int:
        """Commit records 0-2 at T and 3-5 at T+1. The clock stands at T+1."""
        first = clock.now
        fill(hr, 3)
        clock.advance(0.001)
        fill(hr, 3)
        return first

    @pytest.mark.parametrize(
        ("offset", "expected"),
        [
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
        self, hr: Any, t0: int, offset: str, expected: list[int]
    ) -> None:
        if offset.startswith("T"):
            ts, dash, seq = offset.removeprefix("T").partition("-")
            offset = f"{t0 + int(ts or 0)}{dash}{seq}"
        proc = hr.procs.create("p", "t", offset=offset)
        assert seqs(proc.claim(count=100)) == expected

    @pytest.mark.parametrize("offset", ["$>", ":5"])
    def test_an_offset_at_the_end_waits_for_new_records(
        self, hr: Any, t0: int, offset: str
    ) -> None:
        proc = hr.procs.create("p", "t", offset=offset)
        assert proc.claim() is None
        fill(hr, 2)
        assert seqs(proc.claim(count=10)) == [6, 7]

    def test_new_means_by_number_not_by_time(self, hr: Any, t0: int, clock: FakeClock) -> None:
        """Records of the very millisecond in which the proc is created are old if they existed
        before it. They are new if they come later, even if the clock steps back."""
        proc = hr.procs.create("p", "t", offset="$>")
        clock.advance(-10)
        fill(hr, 1)
        assert seqs(proc.claim(count=10)) == [6]

    def test_a_future_time_starts_there(self, hr: Any, t0: int, clock: FakeClock) -> None:
        proc = hr.procs.create("p", "t", offset=str(clock.now + 1000))
        fill(hr, 1)
        assert proc.claim() is None
        assert proc.lag().records == 0
        clock.advance(1)
        fill(hr, 2)
        assert seqs(proc.claim(count=10)) == [7, 8]

    def test_a_future_id_is_itself_not_delivered(self, hr: Any, t0: int, clock: FakeClock) -> None:
        """This also holds within the millisecond of the newest record."""
        proc = hr.procs.create("p", "t", offset=f"{clock.now}-6")
        fill(hr, 1)
        assert proc.claim() is None
        fill(hr, 1)
        assert seqs(proc.claim(count=9)) == [7]

    def test_a_topic_may_be_created_after_its_proc(self, hr: Any, clock: FakeClock) -> None:
        procs = [
            hr.procs.create(f"p{n}", "later", offset=offset)
            for n, offset in enumerate([">", "$>", str(clock.now), "5-5"])
        ]
        assert [proc.claim() for proc in procs] == [None] * 4
        fill(hr, 2, "later")
        assert [seqs(proc.claim(count=9)) for proc in procs] == [[0, 1]] * 4

    @pytest.mark.parametrize("offset", [":6", ":99999999999999999999"])
    def test_an_offset_that_does_not_exist_creates_no_proc(
        self, hr: Any, t0: int, offset: str
    ) -> None:
        """A proc that could never claim is not stored."""
        with pytest.raises(UnknownSeq):
            hr.procs.create("p", "t", offset=offset)
        with pytest.raises(UnknownSeq):
            hr.procs.create("p", "never", offset=":0")
        assert hr.procs.list() == []

    @pytest.mark.parametrize("offset", ["", "<", ">>", "$", "abc", ":x", "1-", 3], ids=repr)
    def test_a_malformed_offset_creates_no_proc(self, hr: Any, offset: Any) -> None:
        with pytest.raises(InvalidPosition):
            hr.procs.create("p", "t", offset=offset)
        assert hr.procs.list() == []

    @pytest.mark.parametrize("name", ["", "a b", "a#b", "x" * 196, None], ids=repr)
    def test_an_invalid_name_creates_no_proc(self, hr: Any, name: Any) -> None:
        with pytest.raises(InvalidProcName):
            hr.procs.create(name, "t")
        with pytest.raises(InvalidTopicName):
            hr.procs.create("p", "no good")
        assert hr.procs.list() == []

    def test_an_existing_proc_ignores_the_offset(self, hr: Any, t0: int) -> None:
        hr.procs.create("p", "t", offset=":2").claim().ack()
        again = hr.procs.create("p", "t", offset=">")
        assert seqs(again.claim(count=9)) == [4, 5]
        assert again.info().offset == ":2"

    def test_a_name_belongs_to_one_topic(self, hr: Any, t0: int) -> None:
        hr.procs.create("p", "t")
        with pytest.raises(ProcNameTaken) as caught:
            hr.procs.create("p", "other")
        assert caught.value.code == "proc_name_not_unique"
        assert caught.value.topic == "t"

    def test_a_reference_does_not_create_the_proc(self, hr: Any, t0: int) -> None:
        proc = hr.proc("p")
        for use in (proc.claim, proc.info, proc.lag):
            with pytest.raises(UnknownProc):
                use()
        hr.procs.create("p", "t")
        assert proc.info().topic == "t"
        assert seqs(proc.claim()) == [0]

    def test_two_procs_of_one_topic_are_independent(self, hr: Any, t0: int) -> None:
        one, two = hr.procs.create("one", "t"), hr.procs.create("two", "t")
        one.claim(count=4).ack()
        assert seqs(two.claim(count=2)) == [0, 1]
        assert seqs(one.claim(count=9)) == [4, 5]

    def test_settings_given_again_are_stored(self, hr: Any) -> None:
        info = hr.procs.create("p", "t").info()
        assert (info.max_attempts, info.lease) == (10, 10.0)
        assert info.on_exhausted == "disable"
        hr.procs.create("p", "t", max_attempts=3)
        hr.procs.create("p", "t", lease=None, on_exhausted="continue")
        info = hr.procs.create("p", "t").info()
        assert (info.max_attempts, info.lease) == (3, None)
        assert info.on_exhausted == "continue"

    @pytest.mark.parametrize(
        "setting",
        [
            {"max_attempts": 0},
            {"max_attempts": -2},
            {"max_attempts": "many"},
            {"max_attempts": True},
            {"lease": 0},
            {"lease": -1},
            {"lease": "soon"},
            {"on_exhausted": "explode"},
        ],
        ids=repr,
    )
    def test_a_bad_setting_is_refused(self, hr: Any, setting: dict[str, Any]) -> None:
        with pytest.raises(InvalidOption) as caught:
            hr.procs.create("p", "t", **setting)
        assert caught.value.option == next(iter(setting))
        assert hr.procs.list() == []
        proc = hr.procs.create("p", "t")
        with pytest.raises(InvalidOption):
            proc.update(**setting)
