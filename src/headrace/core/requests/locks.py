"""Requests about locks: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.contract.store import Store
from headrace.core.channels import form_of
from headrace.core.locks import LockInfo, info_of
from headrace.core.requests.request import Request
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.fields import shown
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query

MAX_LOCKS = 1000


def listing(
    store: Store, select: Query | None, after: KeyValues | None, limit: int
) -> Request[list[LockInfo]]:
    chosen = None if select is None else form_of(select)
    last = "" if after is None else KeyValues.of(after, "after").form
    op = store.locks.list(chosen, last, positive("limit", limit))
    return Request(op, lambda rows: [info_of(row) for row in rows])


def force_release(
    store: Store, key_values: Mapping[str, Any], token: int | None
) -> Request[LockInfo]:
    form = KeyValues.of(key_values, "key_values").form
    if token is not None and (not isinstance(token, int) or isinstance(token, bool)):
        raise InvalidOption(f"token is {shown(token)}: use the number of a lock.", option="token")
    return Request(store.locks.force_release(form, token), info_of)
