"""Key-values: what they may be, and the one form of each."""

import copy
import pickle
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from willow_samples import KEYS, TYPED, values

from headrace.errors import InvalidKeyValues
from headrace.model.query.key_values import MAX_FORM_LENGTH, KeyValues
from headrace.model.query.typed_values import ANY, Value, typed

PAIRS = st.dictionaries(KEYS, values(*TYPED), min_size=1, max_size=5)
PATTERNS = st.dictionaries(KEYS, values(), min_size=1, max_size=5)


def test_plain_and_typed_values_make_one_form():
    found = KeyValues.of({"tries": 3, "os": "linux", "size": typed("uint8", 7), "load": 0.5})
    assert found.form == ('{"load":[12,"5E-01"],"os":[13,"linux"],"size":[1,"7"],"tries":[10,"3"]}')
    assert found.plain == {"load": 0.5, "os": "linux", "size": typed("uint8", 7), "tries": 3}


@given(PATTERNS, st.randoms())
def test_the_same_map_has_the_same_form(pairs, random):
    shuffled = list(pairs.items())
    random.shuffle(shuffled)
    one = KeyValues.of(pairs, allow_any=True)
    two = KeyValues.of(MappingProxyType(dict(shuffled)), allow_any=True)
    assert (one.form, one, hash(one)) == (two.form, two, hash(two))
    assert list(one) == sorted(pairs)


@given(PATTERNS, PATTERNS)
def test_other_maps_have_other_forms(one, two):
    first, second = KeyValues.of(one, allow_any=True), KeyValues.of(two, allow_any=True)
    assert (first.form == second.form) == (one == two) == (first == second)


@given(PATTERNS)
def test_key_values_come_back_from_their_form(pairs):
    found = KeyValues.of(pairs, allow_any=True)
    again = KeyValues.read(found.form)
    assert again == found == pickle.loads(pickle.dumps(found)) == copy.deepcopy(found)
    assert again.form == found.form
    assert dict(found) == pairs


@given(PATTERNS)
def test_key_values_come_back_from_willows_json(pairs):
    found = KeyValues.of(pairs, allow_any=True)
    text = msgspec.json.encode(found.to_json())
    assert KeyValues.from_json(msgspec.json.decode(text), allow_any=True) == found


@given(KEYS, values(), KEYS, values())
def test_a_pair_has_one_form(key, value, other_key, other):
    is_same = (key, value) == (other_key, other)
    pairs = ({key: value}, {other_key: other})
    forms = {KeyValues.of(pair, allow_any=True).form for pair in pairs}
    assert (len(forms) == 1) == is_same


def test_they_cannot_be_changed():
    own = {"os": "linux"}
    found = KeyValues.of(own)
    own["os"] = "mac"
    assert found["os"].data == "linux"
    with pytest.raises(TypeError):
        found["os"] = 1
    assert found != {"os": "linux"}
    assert {found: 1}[KeyValues.of({"os": "linux"})] == 1


def test_plain_values_are_not_taken_for_typed_ones():
    with pytest.raises(InvalidKeyValues, match=r"\[os\]: 'linux' is not typed: use KeyValues.of"):
        KeyValues({"os": "linux"})


def test_some_of_the_keys():
    found = KeyValues.of({"repo": "willow", "branch": "main", "os": "linux"})
    assert found.only(["branch", "repo"]) == KeyValues.of({"repo": "willow", "branch": "main"})
    with pytest.raises(KeyError):
        found.only(["size"])


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({}, "channel"),
        (None, "channel"),
        ([("os", "linux")], "channel"),
        ("os", "channel"),
        ({"os": ANY}, "channel[os]"),
        ({"os": "linux", "_queue": 1}, "channel[_queue]"),
        ({"_": 1}, "channel[_]"),
        (KeyValues({"_queue": typed("int", 1)}), "channel[_queue]"),
        (KeyValues({}), "channel"),
        ({"": 1}, "channel[]"),
        ({5: 1}, "channel[5]"),
        ({"\ud800": 1}, "channel['\\ud800']"),
        ({"os": None}, "channel[os]"),
        ({"os": "x" * MAX_FORM_LENGTH}, "channel"),
        ({"os": "ä" * (MAX_FORM_LENGTH // 2)}, "channel"),
    ],
    ids=lambda wrong: ascii(wrong)[:24],
)
def test_wrong_key_values_are_refused_with_their_path(wrong, path):
    with pytest.raises(InvalidKeyValues) as caught:
        KeyValues.of(wrong, "channel")
    assert (caught.value.path, caught.value.code) == (path, "invalid_key_values")
    assert str(caught.value) == f"{path}: {caught.value.reason}"


def test_any_is_for_patterns():
    assert KeyValues.of({"os": ANY}, allow_any=True).has_any
    with pytest.raises(InvalidKeyValues, match=r"^counter\[os\]: any is not allowed here"):
        KeyValues.of(KeyValues.of({"os": ANY}, allow_any=True), "counter")


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        (None, "KeyValues"),
        ([], "KeyValues"),
        ({}, "KeyValues"),
        ({"os": "linux"}, "KeyValues[os]"),
        ({"os": {"Data": "linux"}}, "KeyValues[os].Type"),
        ({"os": {"Type": 14, "Data": "linux"}}, "KeyValues[os].Type"),
        ({"os": {"Type": 0, "Data": "1"}}, "KeyValues[os].Type"),
        ({"os": {"Type": "13", "Data": "1"}}, "KeyValues[os].Type"),
        ({"os": {"Type": "string", "Data": "1"}}, "KeyValues[os].Type"),
        ({"os": {"Type": 13.0, "Data": "1"}}, "KeyValues[os].Type"),
        ({"os": {"Type": True, "Data": "1"}}, "KeyValues[os].Type"),
        ({"os": {"Type": 10, "Data": 5}}, "KeyValues[os].Data"),
        ({"os": {"Type": 10, "Data": "five"}}, "KeyValues[os].Data"),
        ({"os": {"Type": 1, "Data": "256"}}, "KeyValues[os].Data"),
        ({"os": {"Type": 1, "Data": "-1"}}, "KeyValues[os].Data"),
        ({"os": {"Type": 12, "Data": "NaN"}}, "KeyValues[os].Data"),
        ({"os": {"Type": 13}}, "KeyValues[os].Data"),
        ({"os": {"Type": 13, "Data": None}}, "KeyValues[os].Data"),
        ({"os": {"Type": 1024}}, "KeyValues[os]"),
        ({"os": {"Type": 1024, "Data": ""}}, "KeyValues[os].Data"),
        ({"os": {"Type": 13, "Data": "x", "Kind": 1}}, "KeyValues[os].Kind"),
        ({"os": {"type": 13, "Data": "x"}}, "KeyValues[os].type"),
        ({"_os": {"Type": 13, "Data": "x"}}, "KeyValues[_os]"),
        ({"": {"Type": 13, "Data": "x"}}, "KeyValues[]"),
        ({"os": {"Type": 13, "Data": "x" * MAX_FORM_LENGTH}}, "KeyValues"),
    ],
    ids=lambda wrong: ascii(wrong)[:40],
)
def test_wrong_json_is_refused_with_its_path(wrong, path):
    with pytest.raises(InvalidKeyValues) as caught:
        KeyValues.from_json(wrong)
    assert caught.value.path == path


def test_any_in_json():
    for value in ({"Type": 1024}, {"Type": 1024, "Data": None}):
        assert KeyValues.from_json({"os": value}, allow_any=True)["os"] == ANY


def test_the_error_of_a_misspelt_field_names_the_right_one():
    with pytest.raises(InvalidKeyValues, match="did you mean 'Type'"):
        KeyValues.from_json({"os": {"type": 13, "Data": "x"}})


def test_the_seeds_own_channel():
    """As the document of Willow has it."""
    sent = {
        "repo_name": {"Type": 13, "Data": "willow"},
        "branch_name": {"Type": 13, "Data": "new_feature_72"},
        "os": {"Type": 13, "Data": "linux"},
    }
    found = KeyValues.from_json(sent)
    assert found.plain == {"repo_name": "willow", "branch_name": "new_feature_72", "os": "linux"}
    assert found.to_json() == sent
    assert all(isinstance(value, Value) for value in found.values())
