"""Counters as users see them."""

from __future__ import annotations

import msgspec

from headrace.contract.counters import CounterRow
from headrace.model.keyvalues import KeyValues


class CounterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How much user code counts of some key-values, and by how many holders; what was set has
    none."""

    key_values: KeyValues
    count: int
    holders: int


def info_of(row: CounterRow) -> CounterInfo:
    """What a store says of a counter, as users get it."""
    return CounterInfo(
        key_values=KeyValues.read(row.key_values), count=row.count, holders=row.holders
    )
