"""Locks as users see them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from headrace.contract.locks import LockRow
from headrace.model.query.key_values import KeyValues


class LockInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lock with a holder or waiters.

    ``token`` is the fencing number of its last grant, ``holder`` the session that holds it (None
    between two holders), ``waiting`` the number of waiters. A lease that is past its end
    (``is_overdue``) lasts until another session asks for the lock.
    """

    key_values: KeyValues
    token: int
    holder: str | None
    since: datetime | None
    until: datetime | None
    waiting: int
    is_overdue: bool = False


def info_of(row: LockRow) -> LockInfo:
    """A lock's row for the user."""
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
