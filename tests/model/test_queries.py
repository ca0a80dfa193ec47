"""Queries: what each selects, by the tables of the reference and by a second evaluator."""

import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from willow_samples import STORED, numbers, row

from headrace import ANY, KeyValues, typed, where
from headrace.errors import InvalidQuery
from headrace.model.query.index_hints import needed_pairs
from headrace.model.query.selections import COMPARISONS
from headrace.model.query.typed_values import Type, Value
from headrace.types import KeyQuery, MatchQuery, Query, Selection

N, II, IS = (1, 1024), (10, 10), (10, 13)
ALL = f"0-{len(STORED) - 1}"


def asked(text, types=N, **counts) -> Query:
    """``1 = int1, 2 < str2`` as a query, all with the same types."""
    found = {}
    for word in text.split(", "):
        key, comparison, value = word.split()
        typed_value = {"int": int, "str": str, "any": lambda _: ANY}[value[:3]](value[3:])
        found[key] = KeyQuery.of(typed_value, comparison, min_type=types[0], max_type=types[1])
    return Query(Selection.of(found, **counts))


ONE, TWO = asked("1 = int1"), asked("2 = int2")
EITHER = "0 1 6 7 9-15 17 21-29 33-36 38"
BOTH_KEYS = "9 10 11 15 16 17 21 22 23 36 37 38"


def all_but(text: str) -> set[int]:
    return numbers(ALL) - numbers(text)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (Query(), ALL),
        (asked("nokey = any"), ""),
        (ONE, "0 6 9-14 21-26 36 38"),
        (asked("1 = int1, 2 = int2"), "9 11 21 23 36 38"),
        (asked("1 = int1, 2 = int2", min_keys=3), "36 38"),
        (asked("1 = int1, 2 = int2", max_keys=2), "9 11 21 23"),
        (asked("1 = int1, 2 = int2", II), "9 36"),
        (asked("1 = any, 2 = any", II), "9 36"),
        (asked("1 = any, 2 = any"), BOTH_KEYS),
        (asked("1 != int1"), "1 2 3 4 5 7 8 15-20 27-35 37"),
        # Here Willow excludes only what has both.
        (asked("1 != int1, 2 != int2"), all_but(EITHER)),
        (asked("1 != int1, 2 != int2", II), all_but("0 1 9-15 21 27-29 36")),
        (asked("1 != any, 2 != any"), "2 5 8"),
        (asked("1 < str1"), "0 6 9-14 21-26 36 38"),
        (asked("1 < str1, 2 < str2"), "9 11 21 23 36 38"),
        (asked("1 < str1, 2 < str2", IS), "9 36"),
        (asked("1 <= str1"), "0 3 6 9-26 36 37 38"),
        (asked("1 <= str1, 2 <= str2"), BOTH_KEYS),
        (asked("1 <= str1, 2 <= str2", IS), "9 10 15 16 36 37"),
        (asked("1 > int1"), "3 6 15-26 37 38"),
        (asked("1 > int1, 2 > int2"), "16 17 22 23 37 38"),
        (asked("1 > int1, 2 > int2", IS), "16 37"),
        (asked("1 >= int1"), "0 3 6 9-26 36 37 38"),
        (asked("1 >= int1, 2 >= int2"), BOTH_KEYS),
        (asked("1 >= int1, 2 >= int2", IS), "9 10 15 16 36 37"),
        (Query(ONE.selection, and_=(TWO,)), "9 11 21 23 36 38"),
        (Query(and_=(ONE, TWO)), "9 11 21 23 36 38"),
        (Query(and_=(ONE, TWO, asked("2 < int2", (1, 5)))), ""),
        (Query(ONE.selection, or_=(TWO,)), EITHER),
        (Query(or_=(ONE, TWO)), EITHER),
        (Query(or_=(ONE, TWO, asked("2 < int1"))), EITHER),
        (Query.ids("0") & ONE, "0"),
        (asked("1 = int1", ids=["0"]), "0"),
        (asked("1 = int1", (1024, 1024), ids=["0"]), ""),
        (asked("1 = int1", ids=["0"], min_keys=2), ""),
        (Query.ids("unknown"), ""),
        (Query.ids("3", "5", "unknown"), "3 5"),
        # The types that count are those of what is stored, whichever way one compares.
        (asked("1 < str1", (1, 5)), ""),
        (asked("1 > int1", (11, 13)), "3 15-20 37"),
        (asked("1 = int1", (1024, 1024)), "6 21-26 38"),
        (asked("1 = int1", (11, 12)), ""),
        (asked("1 != int1", (11, 12)), ALL),
        # And binds before Or.
        (Query(ONE.selection, (TWO,), (asked("3 = str3", (13, 13)),)),
         "5 9 11 13 19 21 23 25 28 31 34 36 37 38"),
        (Query(Selection(min_keys=3)), "36-38"),
        (Query(Selection(max_keys=0)), ""),
        (Query(Selection(min_keys=1, max_keys=1)), "0-8"),
        (Query.exactly({"1": 1, "2": ANY}), "11"),
    ],
)  # fmt: skip
def test_what_a_query_selects(query, rows):
    """Rows of the table in the reference; any other meaning than Willow's is said beside it."""
    wanted = numbers(rows) if isinstance(rows, str) else rows
    objects = [(str(number), stored) for number, stored in enumerate(STORED)]
    assert {int(id) for id in query.compiled().select(objects)} == wanted
    assert {n for n, stored in enumerate(STORED) if query.matches(stored, str(n))} == wanted


PATTERNS = {
    "a": {"key1": ANY},
    "b": {"key1": ""},
    "c": {"key2": ""},
    "d": {"key1": "", "key2": ""},
    "e": {"key1": "one"},
    "f": {"key1": "one", "key2": "two"},
    "g": {"name": "rule6", "key1": ""},
    "h": {"name": "rule7", "key1": ""},
    "i": {"name": "rule8", "key1": "", "key2": ""},
    "j": {"name": "rule9", "key1": "", "key2": ""},
}
NAMED = {"key1": "", "key2": "", "name": "rule6"}


def matching(subject, types, **counts) -> MatchQuery:
    return MatchQuery(
        {
            key: KeyQuery.of(value, min_type=types[0], max_type=types[1])
            for key, value in subject.items()
        },
        **counts,
    )


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (matching({"key1": ""}, N), "a b"),
        (matching({"key1": "", "key2": ""}, N), "a b c d"),
        (matching({"key1": "", "key2": "", "other": 1}, N), "a b c d"),
        (matching(NAMED, N), "a b c d g"),
        (matching(NAMED, (1, 13)), "b c d g"),
        (matching(NAMED, (1024, 1024)), "a"),
        (matching(NAMED, N, min_keys=2), "d g"),
        (matching(NAMED, N, max_keys=1), "a b c"),
        (matching(NAMED, N, min_keys=2, max_keys=2), "d g"),
        (MatchQuery.of(NAMED), "a b c d g"),
        (MatchQuery.of({"key1": ANY}), "a b e"),
        (MatchQuery.of({"key1": 1}), "a"),
        (MatchQuery.of(NAMED, min_keys=2), "d g"),
    ],
)
def test_which_patterns_match(query, wanted):
    found = [name for name, pattern in PATTERNS.items() if query.matches(pattern)]
    assert found == wanted.split()


# A second evaluator, of the JSON itself, written from the words of the reference.


def naive_place(value):
    number, text = value["Type"], value["Data"]
    if number == 13:
        return number, text.encode()
    if number == 1024:
        return number, 0
    return number, float(text) if number in (11, 12) else int(text)


def naive_compare(asked, stored):
    if asked["Comparison"] == "!=":
        return not (stored and naive_compare({**asked, "Comparison": "="}, stored))
    if stored is None:
        return False
    types = asked["TypeRestrictions"]
    if stored["Type"] < types["MinDataType"] or stored["Type"] > types["MaxDataType"]:
        return False
    if stored["Type"] == 1024 or asked["Value"]["Type"] == 1024:
        return True
    left, right = naive_place(stored), naive_place(asked["Value"])
    if asked["Comparison"] == "=":
        return left == right
    if asked["Comparison"] in ("<=", ">=") and left == right:
        return True
    return left < right if "<" in asked["Comparison"] else left > right


def naive_select(selection, stored, id):
    if "IDs" in selection and id not in selection["IDs"]:
        return False
    if len(stored) < selection.get("MinNumberOfKeyValues", 0):
        return False
    if len(stored) > selection.get("MaxNumberOfKeyValues", len(stored)):
        return False
    asked = selection.get("KeyValues", {})
    return all(naive_compare(asked[key], stored.get(key)) for key in asked)


def naive(query, stored, id):
    if not query:
        return True
    conditions = [naive_select(query["Selection"], stored, id)] if "Selection" in query else []
    conditions += [naive(part, stored, id) for part in query.get("And", [])]
    choices = [naive(part, stored, id) for part in query.get("Or", [])]
    return bool(conditions and all(conditions)) or any(choices)


FEW_VALUES = st.sampled_from(
    [Value(kind, n) for kind in (Type.UINT8, Type.INT, Type.FLOAT64) for n in (0, 1, 2)]
    + [Value(Type.STRING, text) for text in ("", "a", "b")]
)
FEW_KEYS = st.sampled_from("abc")
KINDS = st.sampled_from([1, 6, 10, 11, 12, 13, 1024])


@st.composite
def key_queries(draw):
    comparison = draw(st.sampled_from(COMPARISONS))
    value = draw(FEW_VALUES | st.just(ANY) if comparison in ("=", "!=") else FEW_VALUES)
    if draw(st.booleans()):
        return KeyQuery.of(value, comparison)
    low, high = sorted([draw(KINDS), draw(KINDS)])
    return KeyQuery.of(value, comparison, min_type=low, max_type=high)


@st.composite
def selections(draw):
    some = draw(st.sets(st.sampled_from(["ids", "keys", "min", "max"]), min_size=1))
    low = draw(st.integers(0, 3)) if "min" in some else None
    high = draw(st.integers(low or 0, 4)) if "max" in some else None
    return Selection.of(
        draw(st.dictionaries(FEW_KEYS, key_queries(), min_size=1)) if "keys" in some else None,
        ids=draw(st.lists(st.sampled_from("xyz"), min_size=1)) if "ids" in some else None,
        min_keys=low,
        max_keys=high,
    )


PLAIN_QUERIES = st.dictionaries(FEW_KEYS, key_queries(), min_size=1).map(
    lambda found: Query(Selection.of(found))
)


def joined(parts):
    lists = st.lists(parts, max_size=3)
    return st.builds(Query, st.none() | selections(), lists, lists).filter(lambda q: not q.is_all)


QUERIES = st.recursive(PLAIN_QUERIES | st.builds(Query, selections()), joined, max_leaves=8)
# Every object with some of three keys and one of a few values under each.
FOUND = (None, Value(Type.UINT8, 1), Value(Type.INT, 1), Value(Type.INT, 2),
         Value(Type.FLOAT64, 1), Value(Type.STRING, "a"), ANY)  # fmt: skip
WORLD = [
    KeyValues.of({key: value for key, value in zip("abc", each, strict=True) if value}, allow_any=True)
    for each in product(FOUND, repeat=3)
    if any(each)
]  # fmt: skip
IDS = st.sampled_from(["x", "y", None])
JSON = [stored.to_json() for stored in WORLD]


@given(QUERIES | st.just(Query()), IDS)
def test_two_evaluators_agree(query, id):
    matcher, asked = query.compiled(), query.to_json()
    assert [matcher(stored, id) for stored in WORLD] == [naive(asked, each, id) for each in JSON]


@given(FEW_KEYS, key_queries())
def test_two_evaluators_agree_on_one_key(key, asked):
    query = Query(Selection.of({key: asked}))
    matcher, sent = query.compiled(), query.to_json()
    assert [matcher(stored) for stored in WORLD] == [naive(sent, each, None) for each in JSON]


@given(QUERIES, QUERIES, IDS)
def test_operators_mean_what_they_say(one, two, id):
    first, second = one.compiled(), two.compiled()
    both, either = (one & two).compiled(), (one | two).compiled()
    for stored in WORLD:
        assert both(stored, id) == (first(stored, id) and second(stored, id))
        assert either(stored, id) == (first(stored, id) or second(stored, id))
    assert (one & Query()) == one == (Query() & one)
    assert (one | Query()) == Query() == (Query() | one)


@given(QUERIES)
def test_a_query_comes_back_from_its_json(query):
    assert Query.from_json(query.to_json()) == query
    assert Query.from_json(query.form) == query == Query.from_json(query.form.encode())
    assert Query.from_json(query.form).form == query.form
    assert pickle.loads(pickle.dumps(query)) == query
    assert hash(Query.from_json(query.form)) == hash(query)


@st.composite
def match_queries(draw):
    equal = key_queries().filter(lambda asked: asked.comparison == "=")
    low = draw(st.none() | st.integers(0, 3))
    high = draw(st.none() | st.integers(low or 0, 4))
    return MatchQuery(draw(st.dictionaries(FEW_KEYS, equal, min_size=1)), low, high)


def naive_match(asked, stored):
    low = asked.get("MinNumberOfPermutationKeyValues", 0)
    high = asked.get("MaxNumberOfPermutationKeyValues", 99)
    return low <= len(stored) <= high and all(
        key in asked["KeyValues"]
        and naive_compare({**asked["KeyValues"][key], "Comparison": "="}, stored[key])
        for key in stored
    )


@given(match_queries())
def test_two_evaluators_agree_on_matches(query):
    matcher, asked = query.compiled(), query.to_json()
    assert [matcher(stored) for stored in WORLD] == [naive_match(asked, each) for each in JSON]
    assert MatchQuery.from_json(asked) == query


EQUALITIES = st.dictionaries(FEW_KEYS, FEW_VALUES, min_size=1, max_size=2).map(
    lambda pairs: Query(Selection.of(pairs))
)


def nested(parts):
    lists = st.lists(parts, max_size=2)
    return st.builds(
        lambda one, all, any: Query(one.selection, all, any), parts, lists, lists
    ).filter(lambda query: not query.is_all)


@given(st.recursive(EQUALITIES, nested, max_leaves=6) | QUERIES, IDS)
def test_what_matches_has_the_needed_pairs(query, id):
    """Of patterns; and of typed key-values, where any need not be thought of."""
    matching = [stored for stored in WORLD if query.compiled()(stored, id)]
    for may_store_any in (True, False):
        ways = needed_pairs(query, may_store_any=may_store_any)
        for stored in matching:
            if ways is not None and (may_store_any or not stored.has_any):
                assert any(way <= set(stored.items()) for way in ways)


LINUX, MAC = ("os", typed("string", "linux")), ("os", typed("string", "mac"))
MAIN = ("branch", typed("string", "main"))


@pytest.mark.parametrize(
    ("query", "ways"),
    [
        (where(os="linux"), [{LINUX}]),
        (where(os="linux", tries__gt=3), [{LINUX}]),
        (where(os="linux", branch="main"), [{LINUX, MAIN}]),
        (where(os__in=["linux", "mac"]), [{LINUX}, {MAC}]),
        (where(os__in=["linux", "mac"], branch="main"), [{LINUX, MAIN}, {MAC, MAIN}]),
        (where(os="linux") & where(os="mac"), []),
        (where(os="linux") | where(branch="main"), [{LINUX}, {MAIN}]),
        (where(os="linux") | where(branch__ne="main"), None),
        (where(os__ne="linux"), None),
        (where(os__exists=True), None),
        (Query(), None),
        (Query.ids("x"), None),
        (asked("1 = int1", (11, 12)), []),
        (Query.exactly({"os": "linux"}), [{LINUX}]),
        (where(n__in=range(9)) & where(m__in=range(9)), 9),
        (where(n__in=range(100)), None),
    ],
)
def test_which_pairs_an_index_is_asked_for(query, ways):
    found = needed_pairs(query)
    if isinstance(ways, int):
        assert found is not None
        assert len(found) == ways
    else:
        assert found == (None if ways is None else tuple(map(frozenset, ways)))


def test_patterns_need_no_pair_that_any_would_fit():
    assert needed_pairs(ONE) == (frozenset({("1", typed("int", 1))}),)
    assert needed_pairs(ONE, may_store_any=True) is None
    assert needed_pairs(asked("1 = int1", II), may_store_any=True) == needed_pairs(ONE)


def test_new_objects_are_judged_as_old_ones():
    """A query with Or alone, and one with ids alone, let Willow's new channels all pass."""
    stranger = row("3S")
    assert not Query(or_=(ONE, TWO)).matches(stranger)
    assert not Query.ids("7").matches(stranger, "8")
    assert not Query.ids("7").matches(stranger)


def test_long_chains_stay_flat():
    query = where(n=0)
    for number in range(1, 500):
        query |= where(n=number)
    assert query.matches({"n": 499})
    assert not query.matches({"n": 500})
    for number in range(500):
        query &= where(m__ne=number)
    assert query.matches({"n": 1, "m": -1})
    assert not query.matches({"n": 1, "m": 499})


def test_queries_do_not_lie_too_deep():
    query = where(n=0)
    for _ in range(99):
        query = Query(and_=(query,))
    assert query.matches({"n": 0})
    assert Query.from_json(query.to_json()) == query
    with pytest.raises(InvalidQuery, match="deeper than 100 levels"):
        Query(or_=(query,))
    with pytest.raises(InvalidQuery, match="deeper than 100 levels") as caught:
        Query.from_json({"Or": [query.to_json()]})
    assert caught.value.path.startswith("Or[0].And[0].And[0]")
    with pytest.raises(InvalidQuery):
        Query.from_json('{"Or":[' * 100_000 + "]}" * 100_000)
