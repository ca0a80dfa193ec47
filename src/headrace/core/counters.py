"""Counters as users see them."""

from __future__ import annotations

import msgspec

from headrace.contract.counters import CounterRow
from headrace.contract.limits import Usage
from headrace.core.limits import usage_of
from headrace.errors import LimitReached
from headrace.model.query.key_values import KeyValues


class CounterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The slots that user code has acquired for some key-values, and the number of holders.

    A count that was set has no holder.
    """

    key_values: KeyValues
    count: int
    holders: int


def limit_reached(key_values: KeyValues, count: int, refusal: Usage) -> LimitReached:
    """The error if there are not enough free slots."""
    usage = usage_of(refusal)
    return LimitReached(
        f"{count} more of {key_values.words} cannot start: {usage}. "
        "Wait longer, or try again when slots are released.",
        key_values=key_values.form,
        usage=usage,
    )


def info_of(row: CounterRow) -> CounterInfo:
    """A counter's row for the user."""
    return CounterInfo(
        key_values=KeyValues.read(row.key_values), count=row.count, holders=row.holders
    )
