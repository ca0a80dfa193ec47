"""Channels as users see them, and the options of a claim that select them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from headrace.contract.items import ChannelRow
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.fields import shown
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.times import moment_of

Order = Literal["fair", "line"]


class Choice(TypedDict, total=False):
    """Which items a claim selects: see ``ClaimRequest``."""

    select: str | None
    order: Order
    quantum: int


class ChannelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A channel of a queue: how many of its items wait, and how many are in flight.

    ``delayed_until`` is the end of a delay, before which none of them is claimed.
    """

    key_values: KeyValues
    waiting: int = 0
    active: int = 0
    delayed_until: datetime | None = None


def info_of(row: ChannelRow) -> ChannelInfo:
    """A channel's row for the user."""
    return ChannelInfo(
        key_values=KeyValues.read(row.key_values),
        waiting=row.waiting,
        active=row.active,
        delayed_until=None if row.delayed_until is None else moment_of(row.delayed_until),
    )


def choice_of(select: Query | None, order: object, quantum: object) -> Choice:
    """Check which items a claim selects."""
    if order not in ("fair", "line"):
        raise InvalidOption(f"order is {shown(order)}: use fair or line.", option="order")
    least = positive("quantum", quantum)
    if select is None:
        return {}
    return {
        "select": form_of(select),
        "order": "fair" if order == "fair" else "line",
        "quantum": least,
    }


def form_of(select: object) -> str:
    """The form of a user's query."""
    if not isinstance(select, Query):
        raise InvalidOption(
            f"select is {shown(select)}: use where(os='linux'), or another Query; Query() selects "
            "all channels.",
            option="select",
        )
    return select.form
