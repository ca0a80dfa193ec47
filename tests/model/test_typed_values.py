"""The types of values: what they hold, their order, their text."""

import math
import pickle
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from willow_samples import BITS, values

import headrace
from headrace.errors import InvalidKeyValues
from headrace.model.fields import shown
from headrace.model.query.typed_values import ANY, Type, Value, read_value, typed, value_of


class Os(StrEnum):
    LINUX = "linux"


def test_types_have_willows_numbers():
    words = "uint8 uint16 uint32 uint64 uint int8 int16 int32 int64 int float32 float64 string"
    assert {kind.word: int(kind) for kind in Type} == {
        **{word: number for number, word in enumerate(words.split(), 1)},
        "any": 1024,
    }


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("linux", Value(Type.STRING, "linux")),
        ("", Value(Type.STRING, "")),
        (3, Value(Type.INT, 3)),
        (-(2**63), Value(Type.INT, -(2**63))),
        (2.5, Value(Type.FLOAT64, 2.5)),
        (math.inf, Value(Type.FLOAT64, math.inf)),
        (Os.LINUX, Value(Type.STRING, "linux")),
        (typed("uint8", 3), Value(Type.UINT8, 3)),
        (ANY, ANY),
    ],
    ids=repr,
)
def test_plain_values_get_a_type(plain, value):
    assert value_of(plain) == value
    assert type(value_of(plain).data) is type(value.data)


@pytest.mark.parametrize(
    "wrong",
    [True, None, b"x", math.nan, 2**63, -(2**63) - 1, [], {}, "\ud800", object(), 1j],
    ids=lambda wrong: ascii(wrong)[:20],
)
def test_other_values_are_refused_with_their_path(wrong):
    with pytest.raises(InvalidKeyValues) as caught:
        headrace.KeyValues.of({"os": "linux", "x": wrong}, "channel")
    assert caught.value.path == "channel[x]"
    assert str(caught.value).startswith("channel[x]: ")
    assert len(str(caught.value)) > 35


@pytest.mark.parametrize("kind", list(Type)[:10], ids=lambda kind: kind.word)
def test_whole_numbers_end_where_their_type_ends(kind):
    bits = BITS[kind.word.lstrip("uint")]
    low, high = (0, 2**bits - 1) if kind < Type.INT8 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for number in (low, high):
        assert typed(kind.word, number) == read_value(kind, str(number))
    for number in (low - 1, high + 1):
        with pytest.raises(InvalidKeyValues, match="does not fit"):
            typed(kind.word, number)
        with pytest.raises(InvalidKeyValues, match="does not fit"):
            read_value(kind, str(number))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        *[("int", wrong) for wrong in (1.0, "1", True, None, 10**5000)],
        *[("string", wrong) for wrong in (1, None, b"x", "\udfff")],
        *[("float64", wrong) for wrong in ("1", True, None, math.nan, 10**400)],
        *[("float32", wrong) for wrong in (1e39, -1e39, math.nan)],
        *[("any", wrong) for wrong in (1, "x", 0)],
        *[(wrong, 1) for wrong in (0, 14, 1023, 1025, -1, "int128", "INT", "", None, True, 1.0)],
    ],
    ids=shown,
)
def test_a_value_that_its_type_cannot_hold_is_refused(kind, wrong):
    with pytest.raises(InvalidKeyValues):
        typed(kind, wrong)
    with pytest.raises(InvalidKeyValues):
        Value(kind, wrong)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[(Type.INT, text) for text in ("", "x", "1.0", " 1", "1_0", "0x1", "\u0661", "9" * 5000)],
        *[(Type.FLOAT64, text) for text in ("", "x", "NaN", "-nan", "1_0", " 1", "1e999", "e1")],
        *[(Type.FLOAT32, text) for text in ("3.5E+38", "1e39", "nan")],
        *[(Type.STRING, text) for text in (None, "\ud800")],
        (Type.UINT8, None),
        (Type.ANY, ""),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_text_that_is_no_such_value_is_refused(kind, text):
    with pytest.raises(InvalidKeyValues):
        read_value(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (typed("float64", 32), "3.2E+01"),
        (typed("float32", 32), "3.2E+01"),
        (typed("float32", 0.1), "1E-01"),
        (typed("float64", 0.1), "1E-01"),
        (typed("float64", -1.5e-300), "-1.5E-300"),
        (typed("float64", -0.0), "0E+00"),
        (typed("float64", math.inf), "+Inf"),
        (typed("float32", -math.inf), "-Inf"),
        (typed("float64", 1.7976931348623157e308), "1.7976931348623157E+308"),
        (typed("float32", 3.4028234663852886e38), "3.4028235E+38"),
        (typed("uint64", 2**64 - 1), "18446744073709551615"),
        (typed("string", "3"), "3"),
        (ANY, None),
    ],
    ids=repr,
)
def test_the_text_of_a_value_is_willows(value, text):
    assert value.text == text
    assert read_value(value.type, text) == value


@given(values())
def test_a_value_comes_back_from_its_text(value):
    again = read_value(value.type, value.text)
    assert again == value
    assert hash(again) == hash(value)
    assert again.text == value.text
    assert pickle.loads(pickle.dumps(value)) == value


def test_there_is_one_zero():
    assert math.copysign(1, typed("float32", -0.0).data) == 1
    assert typed("float64", -0.0).text == typed("float64", 0.0).text


def test_types_come_before_values():
    """The example of the reference, and strings by their bytes."""
    rising = [
        typed("uint8", 200),
        typed("uint16", 1),
        value_of(5),
        value_of(0.1),
        value_of(""),
        value_of("Z"),
        value_of("a"),
        value_of("ä"),
        value_of("\uffff"),
        value_of("\U0001d11e"),
        ANY,
    ]
    falling = list(reversed(rising))
    assert sorted(falling) == rising
    texts = [value.text for value in rising[4:-1]]
    assert sorted(texts, key=str.encode) == texts


def test_equal_numbers_of_other_types_are_other_values():
    ones = [typed(kind, 1) for kind in list(Type)[:12]] + [value_of("1"), ANY]
    assert len(set(ones)) == len(ones) == len(Type)


def place(value: Value) -> tuple:
    """The order as the reference words it, for the test alone."""
    data = value.data.encode() if isinstance(value.data, str) else value.data
    return int(value.type), data


@given(st.lists(values(), max_size=6))
def test_the_order_is_total(found):
    for one in found:
        for two in found:
            assert (one < two) + (one == two) + (one > two) == 1
            assert (one < two) == (place(one) < place(two))
            assert (one <= two) == (not one > two)
    assert [place(value) for value in sorted(found)] == sorted(place(value) for value in found)


def test_values_show_how_they_are_made():
    assert repr(typed("uint8", 5)) == "typed('uint8', 5)"
    assert repr(ANY) == "ANY"
    assert [value_of(v).plain for v in ("x", 1, 1.5)] == ["x", 1, 1.5]
    assert typed("int8", 1).plain == typed("int8", 1)
