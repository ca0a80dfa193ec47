"""Requests about counters: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.contract.counters import CounterAddition
from headrace.contract.store import Store
from headrace.core.channels import form_of
from headrace.core.counters import CounterInfo, info_of, limit_reached
from headrace.core.requests.request import Request
from headrace.model.checks import MAX_COUNT, not_negative, positive
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query

MAX_COUNTERS = 1000


def setting(store: Store, key_values: Mapping[str, Any], count: int) -> Request[int]:
    form = KeyValues.of(key_values, "key_values").form
    return Request(store.counters.set(form, not_negative("count", count)))


def adding(store: Store, key_values: Mapping[str, Any], count: int) -> Request[int]:
    pairs = KeyValues.of(key_values, "key_values")
    number = count if isinstance(count, int) and count < 0 else not_negative("count", count)

    def checked(added: CounterAddition) -> int:
        if added.refusal is not None:
            raise limit_reached(pairs, number, added.refusal)
        return added.count

    return Request(store.counters.add(pairs.form, max(number, -MAX_COUNT)), checked)


def listing(
    store: Store, select: Query | None, after: KeyValues | None, limit: int
) -> Request[list[CounterInfo]]:
    chosen = None if select is None else form_of(select)
    last = "" if after is None else KeyValues.of(after, "after").form
    op = store.counters.list(chosen, last, positive("limit", limit))
    return Request(op, lambda rows: [info_of(row) for row in rows])
