"""Queries as JSON: the spellings of the seed, and what is refused, with the path of the field."""

import pytest

from headrace import ANY, where
from headrace.errors import InvalidInput, InvalidQuery
from headrace.types import KeyQuery, MatchQuery, Query, Selection

LINUX = {
    "Value": {"Type": 13, "Data": "linux"},
    "Comparison": "=",
    "TypeRestrictions": {"MinDataType": 13, "MaxDataType": 13},
}
MAIN = {**LINUX, "Value": {"Type": 13, "Data": "main"}}
CHANNELS = {
    1: {"repo_name": "willow", "branch_name": "new_feature_72", "os": "linux"},
    2: {"repo_name": "willow", "branch_name": "main", "os": "windows"},
    3: {"repo_name": "willow", "branch_name": "main", "os": "linux"},
}


@pytest.mark.parametrize("word", ["Selection", "Selections"])
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [({"os": LINUX}, [1, 3]), ({"os": LINUX, "branch_name": MAIN}, [3])],
)
def test_the_seeds_own_queries(word, asked, wanted):
    """Sent as its document says, they select what it says; Willow itself selects everything."""
    query = Query.from_json({word: {"KeyValues": asked}})
    assert [n for n, channel in CHANNELS.items() if query.matches(channel)] == wanted
    assert query.to_json() == {"Selection": {"KeyValues": asked}}


def test_an_empty_query_selects_everything():
    for nothing in ("{}", "null", b"{}", {}, None, {"Selection": None, "And": None, "Or": None}):
        assert Query.from_json(nothing) == Query()
    assert Query().to_json() == {}
    assert Query().form == "{}"


def test_the_short_form_is_the_seeds():
    assert where(os="linux").to_json() == {"Selection": {"KeyValues": {"os": LINUX}}}


def selection(**changes):
    """The JSON of a selection whose only comparison is changed."""
    changed = {name: value for name, value in {**LINUX, **changes}.items() if value != "gone"}
    return {"Selection": {"KeyValues": {"os": changed}}}


def types(low, high):
    return selection(TypeRestrictions={"MinDataType": low, "MaxDataType": high})


OS = "Selection.KeyValues[os]"
WRONG = [
    (5, ""),
    ([], ""),
    ("x", ""),
    ("", ""),
    ("{", ""),
    (b"\xff", ""),
    ("[]", ""),
    ({"Filter": {}}, "Filter"),
    ({"selection": {}}, "selection"),
    ({"AND": []}, "AND"),
    ({"Selection": {}}, "Selection"),
    ({"Selection": 5}, "Selection"),
    ({"Selection": {"KeyValues": None}}, "Selection"),
    ({"Selection": {"KeyValues": {}}}, "Selection.KeyValues"),
    ({"Selection": {"KeyValues": []}}, "Selection.KeyValues"),
    ({"Selection": {"KeyValues": {"os": None}}}, OS),
    ({"Selection": {"KeyValues": {"os": "linux"}}}, OS),
    ({"Selection": {"KeyValues": {"": LINUX}}}, "Selection.KeyValues[]"),
    ({"Selection": {"KeyValues": {"_os": LINUX}}}, "Selection.KeyValues[_os]"),
    ({"Selection": {"IDs": []}}, "Selection.IDs"),
    ({"Selection": {"IDs": "x"}}, "Selection.IDs"),
    ({"Selection": {"IDs": ["x", 5]}}, "Selection.IDs[1]"),
    ({"Selection": {"IDs": ["x", ""]}}, "Selection.IDs[1]"),
    ({"Selection": {"IDs": ["\ud800"]}}, "Selection.IDs[0]"),
    ({"Selection": {"ids": ["x"]}}, "Selection.ids"),
    ({"Selection": {"MinNumberOfKeuValues": 1}}, "Selection.MinNumberOfKeuValues"),
    ({"Selection": {"MinNumberOfKeyValues": -1}}, "Selection.MinNumberOfKeyValues"),
    ({"Selection": {"MinNumberOfKeyValues": "1"}}, "Selection.MinNumberOfKeyValues"),
    ({"Selection": {"MaxNumberOfKeyValues": 1.5}}, "Selection.MaxNumberOfKeyValues"),
    ({"Selection": {"MaxNumberOfKeyValues": True}}, "Selection.MaxNumberOfKeyValues"),
    (
        {"Selection": {"MinNumberOfKeyValues": 2, "MaxNumberOfKeyValues": 1}},
        "Selection.MaxNumberOfKeyValues",
    ),
    ({"Selection": {"IDs": ["x"]}, "Selections": {"IDs": ["x"]}}, "Selections"),
    (selection(Value="gone"), f"{OS}.Value"),
    (selection(Value=None), f"{OS}.Value"),
    (selection(Value="linux"), f"{OS}.Value"),
    (selection(Value={"Type": 99, "Data": "x"}), f"{OS}.Value.Type"),
    (selection(Value={"Data": "x"}), f"{OS}.Value.Type"),
    (selection(Value={"Type": 1, "Data": "256"}), f"{OS}.Value.Data"),
    (selection(Value={"Type": 10, "Data": 5}), f"{OS}.Value.Data"),
    (selection(Value={"Type": 12, "Data": "NaN"}), f"{OS}.Value.Data"),
    (selection(Value={"Type": 13, "Date": "x"}), f"{OS}.Value.Date"),
    *[(selection(Value={"Type": 1024}, Comparison=c), f"{OS}.Value") for c in ("<", "<=", ">", ">=")],
    (selection(Comparison="gone"), f"{OS}.Comparison"),
    (selection(Comparison="=="), f"{OS}.Comparison"),
    (selection(Comparison=""), f"{OS}.Comparison"),
    (selection(Comparison=["="]), f"{OS}.Comparison"),
    (selection(Comparision="="), f"{OS}.Comparision"),
    (selection(TypeRestrictions="gone"), f"{OS}.TypeRestrictions"),
    (selection(TypeRestrictions={}), f"{OS}.TypeRestrictions.MinDataType"),
    (selection(TypeRestrictions={"MinDataType": 1}), f"{OS}.TypeRestrictions.MaxDataType"),
    (selection(TypeRestrictions=[1, 13]), f"{OS}.TypeRestrictions"),
    (types(0, 13), f"{OS}.TypeRestrictions.MinDataType"),
    (types(1, 14), f"{OS}.TypeRestrictions.MaxDataType"),
    (types("int", 13), f"{OS}.TypeRestrictions.MinDataType"),
    (types(1, "13"), f"{OS}.TypeRestrictions.MaxDataType"),
    (types(13, 10), f"{OS}.TypeRestrictions.MaxDataType"),
    ({"And": {}}, "And"),
    ({"And": []}, "And"),
    ({"Or": []}, "Or"),
    ({"Or": [None]}, "Or[0]"),
    ({"Or": [{}]}, "Or[0]"),
    ({"And": [selection(), {}]}, "And[1]"),
    ({"And": [selection(), "x"]}, "And[1]"),
    ({"Or": [{"And": [types(99, 13)]}]}, f"Or[0].And[0].{OS}.TypeRestrictions.MinDataType"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "path"), WRONG, ids=lambda wrong: ascii(wrong)[:60])
def test_a_wrong_query_is_refused_with_the_path_of_the_field(wrong, path):
    with pytest.raises(InvalidQuery) as caught:
        Query.from_json(wrong)
    error = caught.value
    assert (error.path, error.code) == (path, "invalid_query")
    assert isinstance(error, InvalidInput)
    assert str(error).startswith(f"{path}: " if path else "")
    assert len(error.reason) > 8


MATCHES = [
    (None, ""),
    ({}, "KeyValues"),
    ({"KeyValues": None}, "KeyValues"),
    ({"KeyValues": {}}, "KeyValues"),
    ({"KeyValues": {"os": LINUX}}, "KeyValues[os].Comparison"),
    ({"KeyValues": {"os": {"Value": LINUX["Value"]}}}, "KeyValues[os].TypeRestrictions"),
    ({"KeyValue": {}}, "KeyValue"),
    ({"Selection": {}}, "Selection"),
]
NAME = "NumberOfPermutationKeyValues"
ASKED = {key: value for key, value in LINUX.items() if key != "Comparison"}


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        *MATCHES,
        ({"KeyValues": {"os": ASKED}, f"Min{NAME}": 2, f"Max{NAME}": 1}, f"Max{NAME}"),
        ({"KeyValues": {"os": ASKED}, f"Min{NAME}": -1}, f"Min{NAME}"),
        ({"KeyValues": {"os": ASKED}, "MinNumberOfKeyValues": 1}, "MinNumberOfKeyValues"),
    ],
    ids=lambda wrong: ascii(wrong)[:60],
)
def test_a_wrong_match_is_refused_with_the_path_of_the_field(wrong, path):
    with pytest.raises(InvalidQuery) as caught:
        MatchQuery.from_json(wrong)
    assert caught.value.path == path


def test_a_match_comes_back_from_its_json():
    sent = {"KeyValues": {"os": ASKED}, f"Min{NAME}": 1, f"Max{NAME}": 2}
    assert MatchQuery.from_json(sent).to_json() == sent


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (lambda: KeyQuery.of(None), "Value"),
        (lambda: KeyQuery.of(True), "Value"),
        (lambda: KeyQuery("linux", "=", 13, 13), "Value"),
        (lambda: KeyQuery.of("x", "=="), "Comparison"),
        (lambda: KeyQuery.of(ANY, "<"), "Value"),
        (lambda: KeyQuery.of(1, min_type="number"), "TypeRestrictions.MinDataType"),
        (lambda: KeyQuery.of(1, min_type=13), "TypeRestrictions.MaxDataType"),
        (Selection, ""),
        (lambda: Selection.of({}), "KeyValues"),
        (lambda: Selection.of({"os": None}), "KeyValues[os].Value"),
        (lambda: Selection.of({"_os": 1}), "KeyValues[_os]"),
        (lambda: Selection.of(ids="abc"), "IDs"),
        (lambda: Selection.of(ids=[]), "IDs"),
        (lambda: Selection(min_keys=2, max_keys=1), "MaxNumberOfKeyValues"),
        (lambda: Query({}), "Selection"),
        (lambda: Query(and_=[Query()]), "And[0]"),
        (lambda: Query(or_=[where(a=1), "x"]), "Or[1]"),
        (lambda: Query(or_=5), "Or"),
        (lambda: Query.exactly({}), "KeyValues"),
        (Query.ids, "IDs"),
        (lambda: MatchQuery.of({}), "KeyValues"),
        (lambda: MatchQuery.of({"_x": 1}), "KeyValues[_x]"),
        (lambda: MatchQuery({"x": KeyQuery.of(1, "<")}), "KeyValues[x].Comparison"),
        (where, ""),
        (lambda: where(os=None), "os"),
        (lambda: where(os=True), "os.Value"),
        (lambda: where(_os=1), "KeyValues[_os]"),
        (lambda: where(tries__above=3), "tries__above"),
        (lambda: where(tries__ge=3), "tries__ge"),
        (lambda: where(tries__gt=float("nan")), "tries__gt.Value"),
        (lambda: where(tries__gt=ANY), "tries__gt.Value"),
        (lambda: where(os__in="linux"), "os__in"),
        (lambda: where(os__in=[]), "os__in"),
        (lambda: where(os__in=["linux", None]), "os__in"),
        (lambda: where(os__exists=1), "os__exists"),
    ],
)
def test_a_query_that_is_built_wrong_is_refused(build, path):
    with pytest.raises(InvalidQuery) as caught:
        build()
    assert caught.value.path == path


def test_queries_join_with_queries_only():
    for other in (5, None, {"os": "linux"}):
        with pytest.raises(TypeError):
            where(os="linux") & other
        with pytest.raises(TypeError):
            where(os="linux") | other


def test_the_error_of_a_misspelt_lookup_names_the_right_one():
    with pytest.raises(InvalidQuery, match="did you mean 'tries__gte'"):
        where(tries__ge=3)
    with pytest.raises(InvalidQuery, match="did you mean 'And'"):
        Query.from_json({"AND": []})


def test_the_short_form_in_full():
    """Each lookup is the query that one would write in its place."""

    def one(key, value, comparison="=", **types):
        return Query(Selection.of({key: KeyQuery.of(value, comparison, **types)}))

    assert where(os="linux") == where(os__eq="linux") == one("os", "linux")
    assert where(os__ne="linux") == one("os", "linux", "!=")
    assert where(tries__lt=3) == one("tries", 3, "<", min_type="int", max_type="int")
    assert where(tries__lte=3) == one("tries", 3, "<=")
    assert where(tries__gt=3) == one("tries", 3, ">")
    assert where(tries__gte=3) == one("tries", 3, ">=")
    assert where(os__exists=True) == one("os", ANY) == where(os=ANY)
    assert where(os__exists=False) == one("os", ANY, "!=")
    assert where(os__in=["linux"]) == where(os="linux")
    assert where(my__key__eq=1) == one("my__key", 1)
    either = where(os__in=["linux", "mac"])
    assert either == Query(and_=(where(os="linux") | where(os="mac"),))
    between = where(tries__gt=3, tries__lt=5, os="linux")
    assert [between.matches({"tries": n, "os": "linux"}) for n in (3, 4, 5)] == [False, True, False]
    assert not where(tries__gt=3).matches({"tries": "many"})
    assert where(**{"branch-name__ne": "main"}).matches({"branch-name": "next"})
