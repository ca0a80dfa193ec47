"""Which index entries a query needs, before anything is evaluated.

A store with an index from pairs (a key with its value) to objects need not evaluate a query for
all of them: often a match must have certain pairs.
"""

from __future__ import annotations

from itertools import product

from headrace.model.query.queries import Query
from headrace.model.query.selections import KeyQuery, Selection
from headrace.model.query.typed_values import ANY, Value

Pair = tuple[str, Value]
Needed = tuple[frozenset[Pair], ...]

# With more alternatives than this an index is of little help.
MAX_ALTERNATIVES = 64


def needed_pairs(query: Query, *, may_store_any: bool = False) -> Needed | None:
    """The alternatives of a query: every match has all the pairs of at least one of them.

    None means that nothing is known and the query must be evaluated for all objects; an empty
    result, that nothing can match. An object with the pairs need not match: evaluate the query.
    ``may_store_any`` means that patterns are stored: a comparison that ``ANY`` would fit needs no
    pair there.

    >>> needed_pairs(where(os__in=["linux", "mac"], tries__gt=3))
    (frozenset({('os', typed('string', 'linux'))}), frozenset({('os', typed('string', 'mac'))}))
    """
    together: Needed | None = None
    if query.selection is not None:
        together = _of_selection(query.selection, may_store_any)
    for part in query.and_:
        together = _both(together, needed_pairs(part, may_store_any=may_store_any))
    if not query.or_:
        return together
    ways: list[frozenset[Pair]] = []
    if query.selection is not None or query.and_:
        if together is None:
            return None
        ways += together
    for part in query.or_:
        choice = needed_pairs(part, may_store_any=may_store_any)
        if choice is None:
            return None
        ways += choice
    distinct = tuple(dict.fromkeys(ways))
    return distinct if len(distinct) <= MAX_ALTERNATIVES else None


def _of_selection(selection: Selection, may_store_any: bool) -> Needed | None:
    pairs: list[Pair] = []
    for key, asked in (selection.key_values or {}).items():
        if asked.comparison != "=" or asked.value == ANY or _fits_any(asked, may_store_any):
            continue
        if not asked.min_type <= asked.value.type <= asked.max_type:
            return ()
        pairs.append((key, asked.value))
    return (frozenset(pairs),) if pairs else None


def _fits_any(asked: KeyQuery, may_store_any: bool) -> bool:
    return may_store_any and asked.max_type == ANY.type


def _both(one: Needed | None, two: Needed | None) -> Needed | None:
    """The alternatives for matching both."""
    if one is None or two is None:
        return one if two is None else two
    if len(one) * len(two) > MAX_ALTERNATIVES:
        # Either of them alone is a valid answer too.
        return min(one, two, key=len)
    both = (left | right for left, right in product(one, two))
    # A key has one value.
    possible = (ways for ways in both if len({key for key, _ in ways}) == len(ways))
    return tuple(dict.fromkeys(possible))
