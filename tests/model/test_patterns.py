"""Patterns: which of many apply, found without asking all of them."""

from hypothesis import given
from hypothesis import strategies as st

from headrace import ANY, KeyValues
from headrace.model.query.patterns import PatternIndex, subjects_of
from headrace.model.query.typed_values import Type, Value
from headrace.types import MatchQuery

KEYS = st.sampled_from("abcd")
VALUES = st.sampled_from([Value(kind, n) for kind in (Type.INT, Type.UINT8) for n in (1, 2)])
PATTERNS = st.dictionaries(KEYS, VALUES | st.just(ANY), min_size=1).map(
    lambda pairs: KeyValues.of(pairs, allow_any=True)
)
SUBJECTS = st.dictionaries(KEYS, VALUES, min_size=1).map(KeyValues.of)


def applies(pattern, subject):
    """By the words of the reference."""
    return all(
        key in subject and (value == ANY or value == subject[key]) for key, value in pattern.items()
    )


@given(st.dictionaries(st.sampled_from("pqrstuvw"), PATTERNS), SUBJECTS, st.data())
def test_an_index_finds_what_applies(patterns, subject, data):
    index = PatternIndex()
    for id, pattern in patterns.items():
        index.add(id, KeyValues.of({"a": 1}) if data.draw(st.booleans()) else pattern)
        index.add(id, pattern)
    for id in list(patterns):
        if data.draw(st.booleans()):
            del patterns[id]
            index.remove(id)
            index.remove(id)
    assert len(index) == len(patterns)
    wanted = {id for id, pattern in patterns.items() if applies(pattern, subject)}
    found = index.applying(subject)
    assert set(found) == wanted
    assert len(found) == len(wanted)
    orders = [(len(patterns[id]), list(patterns[id])) for id in found]
    assert orders == sorted(orders)


@given(PATTERNS, SUBJECTS)
def test_both_directions_agree(pattern, subject):
    """Patterns for a subject, and subjects for a pattern."""
    wanted = applies(pattern, subject)
    assert MatchQuery.of(subject).compiled()(pattern) == wanted
    assert subjects_of(pattern).compiled()(subject) == wanted


def test_an_index_asks_few_patterns():
    """Ten thousand rules that share a key cost a subject what two of them cost."""
    index = PatternIndex(
        {
            str(number): KeyValues.of({"repo": ANY, "branch": f"b{number}"}, allow_any=True)
            for number in range(10_000)
        }
    )
    index.add("os", KeyValues.of({"os": ANY}, allow_any=True))
    subject = KeyValues.of({"repo": "willow", "branch": "b77", "os": "linux"})
    assert index.applying(subject) == ["os", "77"]
    assert len(list(index._near(subject))) == 2
