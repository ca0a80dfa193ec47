"""Channels as users see them, and what they say of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from headrace.contract.items import ChannelRow
from headrace.core.times import moment_of
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query

Order = Literal["fair", "line"]


class Choice(TypedDict, total=False):
    """Which items a claim takes: see ``Take``."""

    select: str | None
    order: Order
    quantum: int


class ChannelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A channel of a queue: how many of its items wait, and how many are out.

    ``held_until`` is the time before which none of them is handed out, if it is held.
    """

    key_values: KeyValues
    waiting: int = 0
    active: int = 0
    held_until: datetime | None = None


def info_of(row: ChannelRow) -> ChannelInfo:
    """What a store says of a channel, as users get it."""
    return ChannelInfo(
        key_values=KeyValues.read(row.key_values),
        waiting=row.waiting,
        active=row.active,
        held_until=None if row.held_until is None else moment_of(row.held_until),
    )


def choice_of(select: Query | None, order: object, quantum: object) -> Choice:
    """What a claim shall take, checked."""
    if order not in ("fair", "line"):
        raise InvalidOption(f"order is {order!r}: use fair or line.", option="order")
    least = positive("quantum", quantum)
    if select is None:
        return {}
    return {
        "select": form_of(select),
        "order": "fair" if order == "fair" else "line",
        "quantum": least,
    }


def form_of(select: object) -> str:
    """The form of a query that a user gave."""
    if not isinstance(select, Query):
        raise InvalidOption(
            f"select is {select!r:.80}: use where(os='linux'), or another Query; Query() selects "
            "all channels.",
            option="select",
        )
    return select.form
