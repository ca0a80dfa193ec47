"""The one evaluator: queries as functions.

A query is evaluated for tens of thousands of channels. So everything that does not depend on the
channel is decided once: a query becomes a small tree of functions, each made for what it tests.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY, HIGHEST, LOWEST, Type, Value

if TYPE_CHECKING:
    from headrace.model.query.queries import Query
    from headrace.model.query.selections import KeyQuery, Selection

Stored = Mapping[str, Value]
Test = Callable[[Stored, str | None], bool]
"""A test of an object's key-values and its id."""
ValueTest = Callable[[Value | None], bool]
"""A test of the value stored under a key; None if there is no such key."""

_RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Matcher:
    """A compiled query for many objects: ``matcher(key_values, id)``."""

    __slots__ = ("_test", "query")

    def __init__(self, query: Query) -> None:
        self.query = query
        self._test = _query_test(query)

    def __call__(self, key_values: KeyValues, id: str | None = None) -> bool:
        return self._test(key_values.all, id)

    def select(self, objects: Iterable[tuple[str, KeyValues]]) -> Iterator[str]:
        """The ids of those that the query selects, in their order."""
        test = self._test
        return (id for id, key_values in objects if test(key_values.all, id))


class PatternMatcher:
    """A compiled match query for many patterns: a test for each key, and bounds for their number."""

    __slots__ = ("_max_keys", "_min_keys", "_tests")

    def __init__(
        self,
        asked: Mapping[str, KeyQuery],
        min_keys: int | None = None,
        max_keys: int | None = None,
    ) -> None:
        self._tests = {key: _known_test(query) for key, query in asked.items()}
        self._min_keys = min_keys or 0
        self._max_keys = len(self._tests) if max_keys is None else max_keys

    def __call__(self, pattern: KeyValues) -> bool:
        if not self._min_keys <= len(pattern) <= self._max_keys:
            return False
        tests = self._tests
        for key, stored in pattern.all.items():
            test = tests.get(key)
            if test is None or not test(stored):
                return False
        return True


def _query_test(query: Query) -> Test:
    together = [_selection_test(query.selection)] if query.selection is not None else []
    together += [_query_test(part) for part in query.and_]
    choices = [_query_test(part) for part in query.or_]
    if not choices:
        return _all_of(together)
    return _any_of([_all_of(together), *choices] if together else choices)


def _selection_test(selection: Selection) -> Test:
    tests: list[Test] = []
    if selection.ids is not None:
        ids = frozenset(selection.ids)
        tests.append(lambda _, id: id in ids)
    if selection.min_keys is not None or selection.max_keys is not None:
        tests.append(_count_test(selection.min_keys or 0, selection.max_keys))
    if selection.key_values is not None:
        tests += [_key_test(key, asked) for key, asked in selection.key_values.items()]
    return _all_of(tests)


def _count_test(min_keys: int, max_keys: int | None) -> Test:
    if max_keys is None:
        return lambda stored, _: len(stored) >= min_keys
    return lambda stored, _: min_keys <= len(stored) <= max_keys


def _key_test(key: str, asked: KeyQuery) -> Test:
    accepted = _accepted(asked)
    if asked.comparison in ("=", "!=") and accepted is not None and len(accepted) == 1:
        # By far the most frequent test, so without a call in between.
        [only] = accepted
        if asked.comparison == "=":
            return lambda stored, _: stored.get(key) == only
        return lambda stored, _: stored.get(key) != only
    test = _value_test(asked)
    return lambda stored, _: test(stored.get(key))


def _value_test(asked: KeyQuery) -> ValueTest:
    if asked.comparison == "=":
        return _equal_test(asked)
    if asked.comparison == "!=":
        is_equal = _equal_test(asked)
        return lambda stored: not is_equal(stored)
    return _range_test(asked)


@lru_cache(maxsize=2**12)
def _known_test(asked: KeyQuery) -> ValueTest:
    """The test of a value, cached: channels have many values in common."""
    return _value_test(asked)


def _equal_test(asked: KeyQuery) -> ValueTest:
    low, high = asked.min_type, asked.max_type
    accepted = _accepted(asked)
    if accepted is not None:
        return lambda stored: stored in accepted
    if (low, high) == (LOWEST, HIGHEST):
        return lambda stored: stored is not None
    return lambda stored: stored is not None and low <= stored.type <= high


def _range_test(asked: KeyQuery) -> ValueTest:
    low, high, limit = asked.min_type, asked.max_type, asked.value
    holds = _RANGES[asked.comparison]
    if low == high == limit.type:
        data = limit.data
        return lambda stored: stored is not None and stored.type == low and holds(stored.data, data)
    return lambda stored: (
        stored is not None
        and low <= stored.type <= high
        and (stored.type == Type.ANY or holds(stored, limit))
    )


def _accepted(asked: KeyQuery) -> tuple[Value, ...] | None:
    """The values that equal a given one, of the types that count; None if that is any value."""
    if asked.value == ANY:
        return None
    is_in_range = asked.min_type <= asked.value.type <= asked.max_type
    itself = (asked.value,) if is_in_range else ()
    return (*itself, ANY) if asked.max_type == Type.ANY else itself


def _all_of(tests: list[Test]) -> Test:
    match tests:
        case []:
            return lambda _stored, _id: True
        case [one]:
            return one
        case [one, two]:
            return lambda stored, id: one(stored, id) and two(stored, id)

    def test(stored: Stored, id: str | None) -> bool:
        for each in tests:  # noqa: SIM110  # all() with a generator takes twice as long
            if not each(stored, id):
                return False
        return True

    return test


def _any_of(tests: list[Test]) -> Test:
    match tests:
        case [one]:
            return one
        case [one, two]:
            return lambda stored, id: one(stored, id) or two(stored, id)

    def test(stored: Stored, id: str | None) -> bool:
        for each in tests:  # noqa: SIM110  # ``any`` with a generator is slower
            if each(stored, id):
                return True
        return False

    return test
