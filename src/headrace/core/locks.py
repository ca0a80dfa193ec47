"""Locks as users see them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from headrace.contract.locks import LockRow
from headrace.model.keyvalues import KeyValues


class LockInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lock that somebody has, or waits for.

    ``token`` is the fencing number of its last grant, ``holder`` who has it (None between two
    holders), ``waiting`` how many stand in line. A lease whose end has passed (``is_overdue``)
    lasts until somebody asks for the lock.
    """

    key_values: KeyValues
    token: int
    holder: str | None
    since: datetime | None
    until: datetime | None
    waiting: int
    is_overdue: bool = False


def info_of(row: LockRow) -> LockInfo:
    """What a store says of a lock, as users get it."""
    is_held = row.holder is not None
    return LockInfo(
        key_values=KeyValues.read(row.key_values),
        token=row.fence,
        holder=row.holder,
        since=_moment(row.since) if is_held else None,
        until=_moment(row.until) if is_held else None,
        waiting=row.waiting,
        is_overdue=is_held and row.until <= row.now,
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
