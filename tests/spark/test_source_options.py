"""What a read may be asked for."""

import pytest

from headrace.errors import HeadraceError, InvalidOption
from headrace.pipelines.source.options import source_options
from headrace.pipelines.source.ranges import SeqRange, share, split

GIVEN = {"url": "sqlite:///flow.db", "topic": "orders"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"topic": "orders"}, "'url' is missing"),
        ({"url": "sqlite:///flow.db"}, "'topic' is missing"),
        (GIVEN | {"topic": "a b"}, "'a b' cannot name a topic"),
        (GIVEN | {"topic": "a,"}, "'' cannot name a topic"),
        (GIVEN | {"topicc": "a"}, "no option 'topicc'"),
        (GIVEN | {"start": "yesterday"}, "start is 'yesterday'"),
        (GIVEN | {"end": "$>"}, r"end is '\$>'"),
        (GIVEN | {"partitions": "0"}, "partitions is '0'"),
        (GIVEN | {"columns": "seq,amount"}, "no column 'amount'.*declare a schema"),
        (GIVEN | {"proc": "p"}, "a batch read has no option 'proc'"),
    ],
)
def test_a_wrong_option_of_a_batch_read_is_named(given, named):
    with pytest.raises(HeadraceError, match=named):
        source_options(given, is_stream=False)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (GIVEN, "'proc' is missing"),
        (GIVEN | {"proc": "p", "end": ":7"}, "a stream has no option 'end'"),
        (GIVEN | {"proc": "p", "max_records_per_batch": "many"}, "max_records_per_batch is 'many'"),
        (GIVEN | {"proc": "p", "start": ">>"}, "start is '>>'"),
        (GIVEN | {"proc": "p" * 190, "topic": "first,second"}, "cannot name a proc"),
    ],
)
def test_a_wrong_option_of_a_stream_is_named(given, named):
    with pytest.raises(HeadraceError, match=named):
        source_options(given, is_stream=True)


def test_a_stream_has_a_proc_for_each_topic():
    one = source_options(GIVEN | {"proc": "p"}, is_stream=True)
    two = source_options(GIVEN | {"proc": "p", "topic": "a, b"}, is_stream=True)
    assert one.proc_of("orders") == "p"
    assert [two.proc_of(topic) for topic in two.topics] == ["p-a", "p-b"]


def test_ranges_are_cut_into_even_parts_without_gaps():
    parts = split([SeqRange("a", 10, 109), SeqRange("b", 0, -1), SeqRange("c", 5, 54)], 3)
    assert parts == [SeqRange("a", 10, 59), SeqRange("a", 60, 109), SeqRange("c", 5, 54)]
    assert split([SeqRange("a", 0, 1)], 8) == [SeqRange("a", 0, 0), SeqRange("a", 1, 1)]
    assert len(split([SeqRange("a", 0, 999)], None)) == 1
    assert split([], None) == []


def test_a_limit_is_shared_fairly():
    assert share({"busy": 1000, "quiet": 10}, 100) == {"quiet": 10, "busy": 90}
    assert share({"a": 1000, "b": 1000}, 100) == {"a": 50, "b": 50}
    assert share({"a": 5, "b": 0}, 100) == {"b": 0, "a": 5}
    assert sum(share({"a": 9, "b": 9, "c": 9}, 1).values()) == 3, "each goes on, if slowly"


def test_an_invalid_option_says_which_it_is():
    with pytest.raises(InvalidOption) as caught:
        source_options(GIVEN | {"partitions": "x"}, is_stream=False)
    assert caught.value.option == "partitions"
