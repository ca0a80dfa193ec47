"""Columns as JSON, against Python's own."""

import base64
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidBody
from headrace.pipelines.sink.json_text import check_type, json_text, object_text

TEXTS = st.text(max_size=8)
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.bool_(), st.booleans()),
    (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    (
        pa.struct([("a", pa.int64()), ('b"', pa.list_(pa.bool_()))]),
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(-9, 9), 'b"': st.none() | st.lists(st.booleans())}
        ),
    ),
    (
        pa.map_(pa.string(), pa.struct([("x", pa.string())])),
        st.dictionaries(TEXTS, st.none() | st.fixed_dictionaries({"x": st.none() | TEXTS})),
    ),
]


@pytest.mark.parametrize(("type", "values"), VALUES, ids=lambda value: str(value)[:20])
@given(data=st.data())
def test_json_is_what_python_reads(type: Any, values: Any, data: st.DataObject) -> None:
    """Any value, also null, in whole columns and in slices of them."""
    given_values = data.draw(st.lists(st.none() | values, max_size=6))
    cut = data.draw(st.integers(0, len(given_values)))
    column = pa.array(
        [list(v.items()) if v is not None and pa.types.is_map(type) else v for v in given_values],
        type,
    ).slice(cut)
    texts = json_text(column, "c").to_pylist()
    assert [json.loads(text) for text in texts] == given_values[cut:]
    assert not any("\n" in text for text in texts)


def test_a_whole_double_stays_a_double() -> None:
    texts = json_text(pa.array([1.0, -0.0, 1e20, 2.5]), "c").to_pylist()
    assert [type(json.loads(text)) for text in texts] == [float] * 4
    assert math.copysign(1, json.loads(texts[1])) == -1


def test_times_dates_decimals_and_bytes_are_text_or_numbers() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    columns = {
        "t": pa.array([moment, None], pa.timestamp("us", tz="Europe/Rome")),
        "n": pa.array([moment.replace(tzinfo=None)] * 2, pa.timestamp("us")),
        "d": pa.array([date(2026, 1, 2), None]),
        "z": pa.array([Decimal("1.10"), Decimal("12345678901234567890.12")], pa.decimal128(22, 2)),
        "b": pa.array([b"\x00\xff", None]),
        "k": pa.array(["x", "x"]).dictionary_encode(),
        "e": pa.nulls(2),
    }
    first, second = object_text(columns, 2).to_pylist()
    assert json.loads(first) == {
        "t": "2026-01-02T03:04:05.678000Z",
        "n": "2026-01-02T03:04:05.678000",
        "d": "2026-01-02",
        "z": 1.1,
        "b": base64.b64encode(b"\x00\xff").decode(),
        "k": "x",
        "e": None,
    }
    assert '"z":12345678901234567890.12' in second


def test_keys_of_a_map_are_text() -> None:
    column = pa.array([[(1, "a")]], pa.map_(pa.int64(), pa.string()))
    assert json_text(column, "c").to_pylist() == ['{"1":"a"}']


def test_no_columns_is_an_empty_object() -> None:
    assert object_text({}, 2).to_pylist() == ["{}", "{}"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused(bad: float) -> None:
    with pytest.raises(InvalidBody, match=r"column 'c' is .*: JSON has no such number") as caught:
        json_text(pa.array([1.0, None, bad]), "c")
    assert caught.value.row == 2


def test_a_type_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidBody, match=r"column 'c' is of type duration"):
        check_type(pa.list_(pa.duration("us")), "c")


def test_text_that_is_not_utf8_is_refused() -> None:
    bad = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(InvalidBody, match="not UTF-8"):
        json_text(bad, "c")


@pytest.mark.parametrize(
    ("type", "key", "text"),
    [
        (
            pa.timestamp("us", tz="UTC"),
            datetime(2024, 2, 29, 12, tzinfo=UTC),
            "2024-02-29T12:00:00.000000Z",
        ),
        (pa.timestamp("s"), 1709208000, "2024-02-29T12:00:00"),
        (pa.date32(), date(2024, 2, 29), "2024-02-29"),
        (pa.binary(), b"ab", "YWI="),
        (pa.large_string(), 'a"b', 'a"b'),
        (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
        (pa.float64(), 1.0, "1.0"),
        (pa.bool_(), True, "true"),
        (pa.decimal128(5, 2), Decimal("1.50"), "1.50"),
        (pa.struct([("a", pa.string())]), {"a": "b"}, '{"a":"b"}'),
    ],
    ids=str,
)
def test_a_key_of_a_map_is_its_text_without_further_quotes(type: Any, key: Any, text: str) -> None:
    keys, values = pa.array([key], type), pa.array([1])
    column = pa.MapArray.from_arrays([0, 1], keys, values)
    assert json.loads(json_text(column, "m")[0].as_py()) == {text: 1}


def test_a_field_that_is_there_twice_is_refused() -> None:
    """Of a struct anywhere: JSON readers keep one of them, and the other would be lost."""
    twice = pa.struct([pa.field("x", pa.int64()), pa.field("x", pa.int64())])
    for type in (twice, pa.list_(twice), pa.struct([("deep", twice)])):
        with pytest.raises(InvalidBody, match="has two fields 'x'"):
            check_type(type, "col")
