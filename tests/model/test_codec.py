"""JSON lines: what goes in comes out, for any JSON at all."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import InvalidBody
from headrace.model.codec import ROW_BYTES, encode_bodies, encode_body, encode_rows, pack, records
from headrace.model.topics.records import Batch

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
json_bodies = st.lists(json_values) | st.dictionaries(st.text(), json_values)


@given(json_bodies)
@example({"\u2028\u2029\x85\x1e": "\r\n\0"})
@example({"zero": -0.0})
def test_a_body_survives(body: object) -> None:
    """One line, no raw newline, and the same value back."""
    line = encode_body(body)
    assert "\n" not in line
    [record] = records("t", Batch(0, 1, 0, line), 0, 0)
    assert record.body == body


@given(st.lists(json_bodies, max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_any_part_of_a_batch_can_be_read(bodies: list[object], low: int, high: int) -> None:
    """Batches of one call together hold all its records, in order."""
    lines = encode_bodies(bodies)
    assert lines == [encode_body(body) for body in bodies]
    seq = 0
    found = []
    for count, text, headers in pack(lines, ["null"] * len(lines)):
        assert headers is None
        found += records("t", Batch(seq, count, 7, text), low, high)
        seq += count
    assert [r.body for r in found] == bodies[low : high + 1]
    assert [r.seq for r in found] == list(range(len(bodies)))[low : high + 1]


@given(st.lists(st.integers(0, 3 * ROW_BYTES), max_size=12))
def test_rows_are_split_by_size(sizes: list[int]) -> None:
    """No row is longer than the limit unless it is one record, and none could be joined."""
    lines = ["x" * size for size in sizes]
    rows = list(pack(lines, ["null"] * len(lines)))
    assert "\n".join(body for _, body, _ in rows) == "\n".join(lines) or not lines
    assert sum(count for count, _, _ in rows) == len(lines)
    for count, body, _ in rows:
        assert count == 1 or len(body) <= ROW_BYTES


@given(st.floats(), st.booleans())
def test_numbers_json_does_not_have_are_never_stored(number: float, nested: bool) -> None:
    """msgspec would write null."""
    body = {"a": [number]} if nested else {"a": number}
    if math.isfinite(number):
        assert "null" not in encode_body(body)
        return
    with pytest.raises(InvalidBody):
        encode_body(body)


@given(st.lists(st.integers(0, ROW_BYTES + 200), max_size=8), st.booleans())
@example([ROW_BYTES - 30, 9, 0], True)
@example([ROW_BYTES - 30, 10, 0], True)
@example([ROW_BYTES - 10, 0], True)
@example([ROW_BYTES - 9, 0], True)
def test_rows_of_many_bodies_hold_what_lines_would(sizes, is_usual):
    """The same rows: a commit's digest is made of them."""
    bodies = [{"pad": "x" * size} if is_usual else [size] for size in sizes]
    rows = encode_rows(bodies)
    lines = encode_bodies(bodies)
    assert rows == list(pack(lines, ["null"] * len(lines)))
