"""Reading topics."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core import scans
from headrace.errors import (
    InvalidOption,
    InvalidPosition,
    InvalidTopicName,
    UnknownSeq,
    UnknownTopic,
)
from headrace.model.topics.positions import record_id
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract, bodies, fill, seqs
from headrace.testing.contract.queue_base import StoreOps

MALFORMED = ["abc", "-5", "5-", "::1", ":1x", "1-2-3", "5:3", ":-1", ":", " 1", "1\n", "٣", 5, ">"]


class RangeContract(Contract):
    """``range`` and ``iterate``, in both directions, with every form of end.

    Most tests use a topic of three milliseconds T, T+1 and T+2 with the records 0-4, 5-9
    and 10-14.
    """

    @pytest.fixture
    def t0(self, hr: Any, clock: FakeClock) -> int:
        """Fill topic ``t``. Return its first timestamp."""
        first = clock.now
        for start in (0, 5, 10):
            hr.commit_many("t", [{"n": n} for n in range(start, start + 5)])
            clock.advance(0.001)
        return first

    def test_all_records_in_order(self, hr: Any, t0: int) -> None:
        records = hr.range("t")
        assert seqs(records) == list(range(15))
        assert bodies(records) == [{"n": n} for n in range(15)]
        assert [record.ts - t0 for record in records] == [0] * 5 + [1] * 5 + [2] * 5
        assert [record.id for record in records[:2]] == [f"{t0}-0", f"{t0}-1"]
        assert {record.topic for record in records} == {"t"}

    def test_backwards_is_the_reverse(self, hr: Any, t0: int) -> None:
        assert hr.range("t", reverse=True) == hr.range("t")[::-1]
        assert seqs(hr.range("t", limit=1, reverse=True)) == [14]

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (None, None, range(15)),
            ("", "", range(15)),
            (":5", ":12", range(5, 13)),
            (":5", None, range(5, 15)),
            (None, ":5", range(6)),
            (":3", ":3", range(3, 4)),
            (":12", ":5", range(0)),
            ("T+0", "T+0", range(5)),
            ("T+1", "T+1", range(5, 10)),
            ("T+1", None, range(5, 15)),
            (None, "T+1", range(10)),
            ("T+2", "T+1", range(0)),
            ("T+3", None, range(0)),
            (None, "T-1", range(0)),
            ("T-9", "T+9", range(15)),
            ("T+1-7", None, range(7, 15)),
            (None, "T+1-7", range(8)),
            ("T+1-7", "T+1-7", range(7, 8)),
            (":2", "T+1", range(2, 10)),
            ("T+1", ":11", range(5, 12)),
            ("T+0-3", "T+2", range(3, 15)),
            # A full id need not exist: its position counts.
            ("T+1-2", None, range(5, 15)),
            ("T+1-99", None, range(10, 15)),
            (None, "T+1-99", range(10)),
            (None, "T+1-0", range(5)),
            ("T-5-3", None, range(15)),
            ("T+9-3", None, range(0)),
        ],
    )
    def test_every_form_of_end(
        self, hr: Any, t0: int, start: str | None, end: str | None, expected: range
    ) -> None:
        low, high = self._text(start, t0), self._text(end, t0)
        assert seqs(hr.range("t", low, high)) == list(expected)
        assert seqs(hr.range("t", high, low, reverse=True)) == list(expected)[::-1]

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (":5", ":12", range(6, 12)),
            (":1", ":1", range(0)),
            (":1", ":2", range(0)),
            (None, ":5", range(5)),
            (":5", None, range(6, 15)),
            ("T+1-7", "T+2-11", range(8, 11)),
            ("T+1-5", "T+1-9", range(6, 9)),
            # Timestamps are whole milliseconds and stay included.
            ("T+1", "T+1", range(5, 10)),
            ("T+0", ":7", range(7)),
            (":3", "T+1", range(4, 10)),
            # An id that does not exist excludes nothing.
            ("T+1-2", None, range(5, 15)),
            (None, "T+1-99", range(10)),
            (None, None, range(15)),
        ],
    )
    def test_exclusive_drops_exact_ends_only(
        self, hr: Any, t0: int, start: str | None, end: str | None, expected: range
    ) -> None:
        low, high = self._text(start, t0), self._text(end, t0)
        assert seqs(hr.range("t", low, high, exclusive=True)) == list(expected)
        assert seqs(hr.range("t", high, low, exclusive=True, reverse=True)) == list(expected)[::-1]

    def test_timestamps_work_on_hyphenated_topics(self, hr: Any, clock: FakeClock) -> None:
        """An end is a whole millisecond, also if the name has the hyphen of ids."""
        fill(hr, 3, "my-t")
        assert seqs(hr.range("my-t", end=str(clock.now))) == [0, 1, 2]
        assert seqs(hr.range("my-t", start=str(clock.now), reverse=True)) == [2, 1, 0]

    def test_timestamps_are_compared_as_numbers(self, hr: Any, t0: int) -> None:
        """``9`` is long ago, although as text it sorts after ``1518951480106``."""
        assert len(hr.range("t", start="9")) == 15
        assert hr.range("t", end="9") == []
        assert len(hr.range("t", end="9" * 15)) == 15

    @pytest.mark.parametrize("limit", [1, 4, 15, 16, 1000])
    def test_a_limit_returns_the_first_records_in_reading_order(
        self, hr: Any, t0: int, limit: int
    ) -> None:
        everything = list(range(15))
        assert seqs(hr.range("t", limit=limit)) == everything[:limit]
        assert seqs(hr.range("t", limit=limit, reverse=True)) == everything[::-1][:limit]
        assert seqs(hr.range("t", ":3", ":11", limit=limit)) == everything[3:12][:limit]
        backwards = hr.range("t", ":11", ":3", exclusive=True, limit=limit, reverse=True)
        assert seqs(backwards) == everything[4:11][::-1][:limit]

    @pytest.mark.parametrize("limit", [None, 0, -1])
    def test_no_limit_reads_all(self, hr: Any, t0: int, limit: int | None) -> None:
        assert len(hr.range("t", limit=limit)) == 15

    @pytest.mark.parametrize("limit", ["x", 2.5, True], ids=repr)
    def test_a_limit_is_a_whole_number(self, hr: Any, t0: int, limit: Any) -> None:
        for read in (hr.range, hr.iterate):
            with pytest.raises(InvalidOption) as caught:
                read("t", limit=limit)
            assert caught.value.option == "limit"

    @pytest.mark.parametrize("end", MALFORMED, ids=repr)
    def test_a_malformed_end_is_refused(self, hr: Any, t0: int, end: Any) -> None:
        for read in (
            lambda: hr.range("t", start=end),
            lambda: hr.range("t", end=end),
            lambda: hr.range("t", start=end, reverse=True),
            lambda: hr.iterate("t", end=end),
        ):
            with pytest.raises(InvalidPosition) as caught:
                read()
            assert caught.value.code == "invalid_range_offset"

    @pytest.mark.parametrize("seq", [":15", ":99", ":12345678901234567", ":" + "9" * 400])
    def test_a_number_that_does_not_exist_is_refused(self, hr: Any, t0: int, seq: str) -> None:
        for read in (
            lambda: hr.range("t", start=seq),
            lambda: hr.range("t", end=seq),
            lambda: hr.range("t", start=seq, reverse=True),
        ):
            with pytest.raises(UnknownSeq) as caught:
                read()
            assert caught.value.code == "invalid_tone_id_search"
            assert caught.value.topic == "t"

    def test_the_starting_end_is_validated_first(self, hr: Any, t0: int) -> None:
        with pytest.raises(UnknownSeq, match=":77"):
            hr.range("t", ":77", ":88")
        with pytest.raises(UnknownSeq, match=":88"):
            hr.range("t", ":88", ":77", reverse=True)

    def test_form_is_checked_before_existence(self, hr: Any) -> None:
        with pytest.raises(InvalidTopicName):
            hr.range("no good", "no good")
        with pytest.raises(InvalidPosition):
            hr.range("unknown", "no good")
        with pytest.raises(UnknownTopic):
            hr.range("unknown", ":3")
        with pytest.raises(UnknownTopic):
            hr.range("unknown", "1518951480106")

    def test_huge_ids_and_times_are_positions_like_others(self, hr: Any, t0: int) -> None:
        huge = "9" * 40
        assert hr.range("t", start=huge) == []
        assert len(hr.range("t", end=f"{huge}-{huge}")) == 15

    def test_iteration_streams_in_pages(
        self, hr: Any, t0: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The size of a page does not change the records."""
        for size in (1, 2, 7):
            monkeypatch.setattr(scans, "PAGE_RECORDS", size)
            assert seqs(hr.iterate("t")) == list(range(15))
            assert seqs(hr.iterate("t", reverse=True)) == list(range(15))[::-1]
            assert seqs(hr.iterate("t", ":3", ":11", exclusive=True)) == list(range(4, 11))
            down = hr.iterate("t", ":11", ":3", exclusive=True, reverse=True, limit=5)
            assert seqs(down) == [10, 9, 8, 7, 6]
            assert seqs(hr.iterate("t", limit=9)) == list(range(9))

    def test_a_page_is_bounded_in_bytes(
        self, hr: Any, t0: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Pages of large records have few of them. Reading continues all the same."""
        monkeypatch.setattr(scans, "PAGE_BYTES", 10)
        assert seqs(hr.iterate("t")) == list(range(15))
        assert seqs(hr.iterate("t", reverse=True)) == list(range(15))[::-1]

    def test_iteration_ends_where_the_topic_ended_when_it_began(
        self, hr: Any, t0: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scans, "PAGE_RECORDS", 4)
        seen = []
        for record in hr.iterate("t"):
            seen.append(record.seq)
            hr.commit("t", {"late": True})
        assert seen == list(range(15))

    def test_iterate_validates_its_arguments_immediately(self, hr: Any) -> None:
        """Not only at the first record."""
        with pytest.raises(InvalidTopicName):
            hr.iterate("no good")

    def test_single_records_of_a_large_batch(self, hr: Any) -> None:
        fill(hr, 1000)
        for seq in (0, 1, 500, 999, 500):
            [record] = hr.range("t", f":{seq}", f":{seq}")
            assert (record.seq, record.body) == (seq, {"n": seq})

    def test_changing_a_body_that_was_read_changes_no_other_read(self, hr: Any) -> None:
        fill(hr, 3)
        hr.range("t", ":1", ":1")[0].body["n"] = "changed"
        assert bodies(hr.range("t", ":1", ":1")) == [{"n": 1}]

    def test_batches_come_as_they_are_stored(self, hr: Any, t0: int) -> None:
        """As bytes of JSON lines. The first and the last batch may have more records than were
        asked for."""
        hr.commit("t", {"text": "\u00e4\n"}, headers={"who": "me"})
        ops = StoreOps(hr)
        page = ops.topics.read_stored("t", 7, 15, 100, 10**6)
        assert (page.topic, page.first, page.last) == ("t", 7, 15)
        assert [(batch.base_seq, batch.count, batch.ts) for batch in page.batches] == [
            (5, 5, t0 + 1),
            (10, 5, t0 + 2),
            (15, 1, t0 + 3),
        ]
        assert page.batches[0].body == b'{"n":5}\n{"n":6}\n{"n":7}\n{"n":8}\n{"n":9}'
        assert [batch.headers for batch in page.batches] == [None, None, b'{"who":"me"}']
        assert page.batches[2].body == '{"text":"\u00e4\\n"}'.encode()
        assert hr.range("t", ":15")[0].headers == {"who": "me"}, "texts are texts again"

    def test_a_page_of_stored_batches_keeps_to_its_limits(self, hr: Any, t0: int) -> None:
        ops = StoreOps(hr)
        assert ops.topics.read_stored("t", 3, 14, 4, 10**6).last == 6
        assert ops.topics.read_stored("t", 3, 14, 100, 1).last == 4, (
            "one batch, however small the page"
        )
        assert ops.topics.read_stored("t", 3, 99, 100, 10**6).last == 14
        with pytest.raises(UnknownSeq):
            ops.topics.read_stored("t", 15, 20, 100, 10**6)
        with pytest.raises(UnknownTopic):
            ops.topics.read_stored("nothing", 0, 20, 100, 10**6)

    @staticmethod
    def _text(end: str | None, t0: int) -> str | None:
        """``T+1-7`` is the id with seq 7 one millisecond after the first."""
        if end is None or not end.startswith("T"):
            return end
        sign = 1 if end[1] == "+" else -1
        offset, _, seq = end[2:].partition("-")
        ts = t0 + sign * int(offset)
        return record_id(ts, int(seq)) if seq else str(ts)
