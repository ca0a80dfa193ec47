"""Patterns of rules: key-values in which ``ANY`` matches all values."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, Self

import msgspec
from msgspec.structs import force_setattr

from headrace.errors import InvalidQuery
from headrace.model.fields import refuse, step
from headrace.model.frozen_map import FrozenMap
from headrace.model.query.evaluator import PatternMatcher
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.query.selections import KeyQuery, Selection, check_counts, key_queries
from headrace.model.query.selections import key_queries_from_json as read_key_queries
from headrace.model.query.typed_values import ANY, HIGHEST, LOWEST, Type, Value
from headrace.model.query.willow_json import fields_of, parsed

_COUNTS = "NumberOfPermutationKeyValues"
_FIELDS: dict[str, tuple[str, ...]] = {"KeyValues": (), f"Min{_COUNTS}": (), f"Max{_COUNTS}": ()}


class MatchQuery(msgspec.Struct, frozen=True):
    """Selects patterns all of whose keys are in the query, each with a value that it selects.

    >>> MatchQuery.of({"os": "linux", "branch": "main"}).matches({"os": ANY})
    True
    """

    key_values: FrozenMap[KeyQuery]
    min_keys: int | None = None
    max_keys: int | None = None

    @classmethod
    def of(
        cls,
        subject: Mapping[str, object],
        *,
        min_keys: int | None = None,
        max_keys: int | None = None,
    ) -> Self:
        """The patterns that apply to such key-values: by the same values, or by ``ANY``."""
        with step("", InvalidQuery):
            found = KeyValues.of(subject, "KeyValues", allow_any=True)
        return cls(FrozenMap(_asked_of(found, found.all)), min_keys, max_keys)

    def __post_init__(self) -> None:
        asked = key_queries(self.key_values)
        for key, query in asked.items():
            if query.comparison != "=":
                refuse(InvalidQuery, f"KeyValues[{key}].Comparison", "a match compares by = only.")
        force_setattr(self, "key_values", asked)
        check_counts(self.min_keys, self.max_keys, _COUNTS)

    def matches(self, pattern: Mapping[str, object]) -> bool:
        """Whether a pattern fits. For many of them ``compiled`` is faster."""
        return self.compiled()(KeyValues.of(pattern, "pattern", allow_any=True))

    def compiled(self) -> PatternMatcher:
        """The query as a function of patterns, for repeated use."""
        return PatternMatcher(self.key_values, self.min_keys, self.max_keys)

    def to_json(self) -> dict[str, Any]:
        """Willow's JSON, as a parser would make it of the text."""
        found: dict[str, Any] = {
            "KeyValues": {
                key: query.to_json(has_comparison=False) for key, query in self.key_values.items()
            }
        }
        if self.min_keys is not None:
            found[f"Min{_COUNTS}"] = self.min_keys
        if self.max_keys is not None:
            found[f"Max{_COUNTS}"] = self.max_keys
        return found

    @classmethod
    def from_json(cls, given: object) -> Self:
        """From Willow's JSON: text, bytes, or what a parser made of them."""
        found = fields_of(parsed(given, InvalidQuery), _FIELDS, InvalidQuery)
        if "KeyValues" not in found:
            refuse(InvalidQuery, "KeyValues", "is missing.")
        asked = read_key_queries(found["KeyValues"], has_comparison=False)
        return cls(asked, found.get(f"Min{_COUNTS}"), found.get(f"Max{_COUNTS}"))


def _asked_of(subject: KeyValues, keys: Container[str]) -> dict[str, KeyQuery]:
    """The tests, for some keys, of the patterns that apply: the same value, or ``ANY``."""
    return {key: _equal_to(value) for key, value in subject.all.items() if key in keys}


@lru_cache(maxsize=2**12)
def _equal_to(value: Value) -> KeyQuery:
    return KeyQuery(value, "=", LOWEST if value == ANY else value.type, HIGHEST)


def pattern_order(pattern: KeyValues) -> tuple[Any, ...]:
    """Patterns are visited by the number of their keys, then by key, then by value."""
    return len(pattern), tuple(pattern), tuple(pattern.all.values())


def subjects_of(pattern: KeyValues) -> Query:
    """The query for the typed key-values to which a pattern applies."""
    asked = {
        key: KeyQuery(value, "=", LOWEST, Type.STRING)
        if value == ANY
        else KeyQuery(value, "=", value.type, value.type)
        for key, value in pattern.all.items()
    }
    return Query(Selection(key_values=FrozenMap(asked)))


class PatternIndex:
    """Finds which of many patterns apply to key-values, without testing all of them.

    Each pattern is indexed under one of its pairs, the rarest at that time. For a subject only
    the patterns under its own pairs are tested. So ten thousand rules for as many branches cost a
    subject no more than one of them.
    """

    def __init__(self, patterns: Mapping[str, KeyValues] | None = None) -> None:
        self._patterns: dict[str, KeyValues] = {}
        self._files: dict[tuple[str, Value], dict[str, KeyValues]] = {}
        self._places: dict[str, tuple[str, Value]] = {}
        for id, pattern in (patterns or {}).items():
            self.add(id, pattern)

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, id: str, pattern: KeyValues) -> None:
        """Add a pattern; it replaces one with the same id."""
        self.remove(id)
        place = min(pattern.all.items(), key=lambda pair: (pair[1] == ANY, self._count(pair)))
        self._files.setdefault(place, {})[id] = pattern
        self._places[id] = place
        self._patterns[id] = pattern

    def remove(self, id: str) -> None:
        """Remove the pattern with the id, if there is one."""
        if self._patterns.pop(id, None) is None:
            return
        place = self._places.pop(id)
        file = self._files[place]
        del file[id]
        if not file:
            del self._files[place]

    def applying(self, subject: KeyValues) -> list[str]:
        """The ids of the patterns that apply to typed key-values, in the order of a visit."""
        near = list(self._near(subject))
        # No candidate has other keys.
        keys = {key for _, pattern in near for key in pattern.all}
        fits = PatternMatcher(_asked_of(subject, keys))
        found = [(pattern, id) for id, pattern in near if fits(pattern)]
        return [id for _, id in sorted(found, key=lambda pair: (pattern_order(pair[0]), pair[1]))]

    def _near(self, subject: KeyValues) -> Iterator[tuple[str, KeyValues]]:
        for key, value in subject.all.items():
            for place in ((key, value), (key, ANY)):
                yield from self._files.get(place, {}).items()

    def _count(self, place: tuple[str, Value]) -> int:
        return len(self._files.get(place, ()))
