"""The guarantees of commit."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.core import clock_skew
from headrace.errors import BodyTooLarge, InvalidBody, InvalidInput, InvalidTopicName, UnknownTopic
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, seqs

BAD_NAMES = ["", "a b", "..", "ä", "a\n", "a/b", "x" * 201, None, 7]
BAD_BODIES: list[Any] = [None, 1, "text", True, 1.5, b"bytes", ({"a": 1},)]
UNSTORABLE: list[tuple[Any, str]] = [
    ({"a": {"b": [1, math.nan]}}, "$.a.b[1]"),
    ({"a": math.inf}, "$.a"),
    ({"a": {1: 2}}, "$.a"),
    ({"a": b"x"}, "$.a"),
    ({"a": {1, 2}}, "$.a"),
    ([{"a": Decimal("1.5")}], "$[0].a"),
    ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "$.a"),
    ({"a": object()}, "$.a"),
    ({"a": "\ud800"}, "$.a"),
]


class CommitContract(Contract):
    """Appending records: ids, order, atomicity, bodies, headers."""

    def test_an_id_is_the_time_and_a_number_from_zero(self, hr: Any, clock: FakeClock) -> None:
        assert hr.commit("t", {"n": 1}) == f"{clock.now}-0"
        clock.advance(1)
        assert hr.commit("t", {"n": 2}) == f"{clock.now}-1"

    def test_numbers_are_per_topic(self, hr: Any) -> None:
        hr.commit("a", {})
        hr.commit("a", {})
        assert hr.commit("b", {}).endswith("-0")

    @pytest.mark.parametrize("bad", range(3))
    def test_an_invalid_row_is_named(self, hr: Any, bad: int) -> None:
        """The message and ``row`` count from 0. Nothing of the list is written."""

        def listed(wrong: Any, right: Any) -> list[Any]:
            return [wrong if n == bad else right for n in range(3)]

        for wrong in ({"a": {1}}, 5, {"a": "x" * 2**21}):
            with pytest.raises(InvalidBody, match=f"row {bad}: ") as caught:
                hr.commit_many("t", listed(wrong, {}))
            assert caught.value.row == bad
            assert caught.value.path.startswith(f"$[{bad}]")
            with pytest.raises(InvalidBody, match=f"row {bad}: ") as caught:
                hr.commit_many("t", listed(wrong, {}), headers={"h": "h"})
            assert caught.value.row == bad
        entries: list[Any] = [5, ("t", 5), ("t", {}, {"h": 1}), ("no/name", {})]
        for entry in entries:
            with pytest.raises(InvalidInput, match=f"row {bad}: ") as other:
                hr.commit(listed(entry, ("t", {})))
            assert other.value.row == bad
        assert hr.topics.list() == []

    def test_a_list_gives_a_list_of_ids_also_for_one(self, hr: Any, clock: FakeClock) -> None:
        assert hr.commit([("t", {"n": 1})]) == [f"{clock.now}-0"]
        assert hr.commit_many("t", [{"n": 2}]) == [f"{clock.now}-1"]

    def test_an_empty_list_commits_nothing(self, hr: Any) -> None:
        assert hr.commit([]) == []
        assert hr.commit_many("t", []) == []
        with pytest.raises(UnknownTopic):
            hr.topic("t").length()

    def test_ids_come_back_in_the_order_given(self, hr: Any, clock: FakeClock) -> None:
        """A call may mix entries of several topics. Each topic numbers its own entries in order."""
        ids = hr.commit([("a", {"i": 0}), ("b", {"i": 1}), ("a", {"i": 2}), ("b", {"i": 3})])
        assert ids == [f"{clock.now}-{seq}" for seq in (0, 0, 1, 1)]
        assert bodies(hr.range("a")) == [{"i": 0}, {"i": 2}]
        assert bodies(hr.range("b")) == [{"i": 1}, {"i": 3}]

    def test_all_records_of_a_call_share_one_time(self, hr: Any, clock: FakeClock) -> None:
        """This also holds across topics, even if one of them is ahead of the clock."""
        clock.advance(60)
        hr.commit("ahead", {})
        clock.advance(-60)
        hr.commit([("ahead", {}), ("other", {})])
        assert hr.range("ahead")[-1].ts == hr.range("other")[-1].ts == clock.now + 60_000

    def test_timestamps_never_fall_when_the_clock_does(self, hr: Any, clock: FakeClock) -> None:
        """Order by time and order by number agree, so no reader misses such records."""
        first = clock.now
        hr.commit("t", {})
        clock.advance(-3600)
        hr.commit("t", {})
        clock.advance(3601)
        hr.commit("t", {})
        assert [record.ts for record in hr.range("t")] == [first, first, first + 1000]

    def test_a_topic_pinned_by_a_fast_clock_is_reported(
        self, hr: Any, clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The client warns once the topic is more than a minute ahead. The commit itself
        succeeds."""
        clock_skew._last_said.clear()
        hr.commit("pinned", {})
        clock.advance(-60)
        hr.commit("pinned", {})
        assert caplog.records == []
        clock.advance(-1)
        hr.commit("pinned", {})
        hr.commit("pinned", {})
        [warning] = caplog.records
        assert "'pinned' is 61 s ahead of the clock" in warning.getMessage()

    def test_a_proc_sees_records_committed_after_the_clock_stepped_back(
        self, hr: Any, clock: FakeClock
    ) -> None:
        hr.commit("t", {"n": 1})
        proc = hr.procs.create("p", "t")
        proc.claim().ack()
        clock.advance(-3600)
        hr.commit("t", {"n": 2})
        assert bodies(proc.claim()) == [{"n": 2}]

    @pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
    def test_a_bad_topic_name_is_refused(self, hr: Any, name: Any) -> None:
        with pytest.raises(InvalidTopicName) as caught:
            hr.commit([(name, {})])
        assert caught.value.code == "invalid_topic_format"

    @pytest.mark.parametrize("name", ["a", "A-b_9", "0", "-", "x" * 200])
    def test_letters_digits_underscore_and_hyphen_make_a_name(self, hr: Any, name: str) -> None:
        hr.commit(name, {"n": 1})
        assert hr.topic(name).length() == 1

    @pytest.mark.parametrize("body", BAD_BODIES, ids=repr)
    def test_a_body_must_be_an_object_or_a_list(self, hr: Any, body: Any) -> None:
        with pytest.raises(InvalidBody) as caught:
            hr.commit("t", body)
        assert caught.value.code == "invalid_log_format"

    @pytest.mark.parametrize(("body", "path"), UNSTORABLE, ids=[path for _, path in UNSTORABLE])
    def test_what_json_would_change_is_refused_with_its_path(
        self, hr: Any, body: Any, path: str
    ) -> None:
        for commit, place in (
            (lambda: hr.commit("t", body), path),
            (lambda: hr.commit_many("t", [{"fine": 1}, body]), f"$[1]{path[1:]}"),
        ):
            with pytest.raises(InvalidBody) as caught:
                commit()
            assert caught.value.path == place
            assert path in str(caught.value)
        with pytest.raises(UnknownTopic):
            hr.topic("t").length()

    def test_a_body_that_contains_itself_is_refused(self, hr: Any) -> None:
        body: dict[str, Any] = {}
        body["me"] = body
        with pytest.raises(InvalidBody):
            hr.commit("t", body)

    def test_bodies_come_back_as_they_were(self, hr: Any) -> None:
        given = [
            {},
            [],
            [1, [2, {"a": None}]],
            {"text": 'ünï \n\r\t\0 "quoted" \\ \u2028 \U0001f600 %s %(x)s :now $1'},
            {"%EOM%": "separators of others do no harm"},
            {"big": 2**80, "neg": -(2**63), "float": 0.1, "zero": -0.0, "e": 1e300},
            {"yes": True, "no": False, "null": None},
        ]
        hr.commit_many("t", given)
        for body in given:
            hr.commit("t", body)
        assert bodies(hr.range("t")) == given + given

    def test_a_tuple_inside_a_body_comes_back_as_a_list(self, hr: Any) -> None:
        hr.commit("t", {"pair": (1, 2)})
        assert bodies(hr.range("t")) == [{"pair": [1, 2]}]

    def test_a_body_over_the_limit_is_refused(self, connect: Connect) -> None:
        hr = connect(max_body=100)
        hr.commit("t", {"x": "y" * 92})
        for commit in (
            lambda: hr.commit("t", {"x": "y" * 93}),
            lambda: hr.commit_many("t", [{"x": 1}, {"x": "y" * 93}]),
        ):
            with pytest.raises(BodyTooLarge) as caught:
                commit()
            assert (caught.value.size, caught.value.limit) == (101, 100)
        assert hr.topic("t").length() == 1

    def test_names_may_have_dots(self, hr: Any) -> None:
        """This holds for topics and for procs. A name must not consist of dots alone."""
        hr.commit("shop.orders", {"n": 1})
        assert [topic.name for topic in hr.topics.list()] == ["shop.orders"]
        assert len(hr.procs.create("shop.billing", "shop.orders").claim()) == 1
        for name in (".", "..", "a b", "a/b"):
            with pytest.raises(InvalidTopicName):
                hr.commit(name, {})

    def test_names_are_checked_before_bodies_and_nothing_is_written(self, hr: Any) -> None:
        with pytest.raises(InvalidTopicName):
            hr.commit([("t", 1), ("bad name", {})])
        with pytest.raises(InvalidBody):
            hr.commit([("t", {}), ("t", 1)])
        assert hr.topics.list() == []

    @pytest.mark.parametrize(
        "entries", [("t", {}), {"t": {}}, [{"topic": "t"}], ["t"], [("t",)], 5], ids=repr
    )
    def test_what_is_not_a_list_of_entries_is_refused(self, hr: Any, entries: Any) -> None:
        with pytest.raises(InvalidBody):
            hr.commit(entries)

    def test_commit_many_refuses_a_single_body(self, hr: Any) -> None:
        with pytest.raises(InvalidBody):
            hr.commit_many("t", {"n": 1})

    def test_a_list_is_one_body_of_commit_and_many_of_commit_many(self, hr: Any) -> None:
        hr.commit("t", [{"n": 1}, {"n": 2}])
        hr.commit_many("t", [{"n": 3}, {"n": 4}])
        assert bodies(hr.range("t")) == [[{"n": 1}, {"n": 2}], {"n": 3}, {"n": 4}]

    def test_headers_travel_beside_the_body(self, hr: Any) -> None:
        hr.commit("t", {"n": 0}, headers={"trace": "a\nb"})
        hr.commit([("t", {"n": 1}, {"own": "1"}), ("t", {"n": 2})], headers={"all": "x"})
        hr.commit("t", {"n": 3})
        assert [record.headers for record in hr.range("t")] == [
            {"trace": "a\nb"},
            {"own": "1"},
            {"all": "x"},
            {},
        ]

    def test_headers_of_some_records_only(self, hr: Any) -> None:
        """If one record of a batch has headers, the other records still have none."""
        hr.commit([("t", {"n": 0}), ("t", {"n": 1}, {"h": "1"}), ("t", {"n": 2})])
        assert [record.headers for record in hr.range("t")] == [{}, {"h": "1"}, {}]
        assert [r.headers for r in hr.range("t", ":1", ":2")] == [{"h": "1"}, {}]

    @pytest.mark.parametrize(
        "headers", [{"a": 1}, {1: "a"}, {"a": None}, ["a"], {"a": "\ud800"}], ids=repr
    )
    def test_headers_must_be_text(self, hr: Any, headers: Any) -> None:
        with pytest.raises(InvalidBody):
            hr.commit("t", {}, headers=headers)
        assert hr.topics.list() == []

    def test_a_large_commit_is_split_and_read_back_whole(self, hr: Any) -> None:
        """A commit is split into rows of about 128 KiB. Readers do not see where."""
        given = [{"n": n, "fill": "x" * (n % 700)} for n in range(2000)]
        ids = hr.commit_many("t", given)
        assert len(set(ids)) == 2000
        records = hr.range("t")
        assert bodies(records) == given
        assert seqs(records) == list(range(2000))
        assert {record.ts for record in records} == {records[0].ts}

    def test_a_topic_without_records_is_unknown(self, hr: Any) -> None:
        assert hr.topics.list() == []
        for read in (
            lambda: hr.range("t"),
            lambda: hr.range("t", reverse=True),
            lambda: hr.topic("t").length(),
            lambda: hr.topic("t").info(),
        ):
            with pytest.raises(UnknownTopic) as caught:
                read()
            assert caught.value.code == "invalid_topic"
            assert caught.value.topic == "t"

    def test_topics_are_listed_by_name(self, hr: Any, clock: FakeClock) -> None:
        for name in ("b", "a-2", "B", "a_1", "a"):
            hr.commit(name, {})
        hr.commit("a", {})
        assert [info.name for info in hr.topics.list()] == ["B", "a", "a-2", "a_1", "b"]
        assert [info.name for info in hr.topics.list(prefix="a")] == ["a", "a-2", "a_1"]
        assert [info.name for info in hr.topics.list(after="a-2", limit=1)] == ["a_1"]
        info = hr.topics.list(prefix="a", limit=1)[0]
        assert (info.first_seq, info.next_seq, info.length) == (0, 2, 2)
        assert info.last_id == f"{clock.now}-1"

    def test_a_proc_does_not_make_its_topic_visible(self, hr: Any) -> None:
        hr.procs.create("p", "t")
        assert hr.topics.list() == []
        with pytest.raises(UnknownTopic):
            hr.range("t")

    def test_two_clients_share_one_order(self, connect: Connect) -> None:
        one, two = connect(), connect()
        ids = [client.commit("t", {"n": n}) for n in range(5) for client in (one, two)]
        assert [record.id for record in one.range("t")] == ids
        assert two.range("t") == one.range("t")

    def test_length_counts_without_reading(self, hr: Any) -> None:
        fill(hr, 3)
        fill(hr, 4)
        assert hr.topic("t").length() == 7
        assert hr.topic("t").info().next_seq == 7
