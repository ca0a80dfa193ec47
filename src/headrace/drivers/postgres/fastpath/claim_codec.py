"""Decodes the items of a claim, which the database returns in one text.

See ``headrace.mark_claimed``. The text omits what all items have in common.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.drivers.postgres.round_trip import DIVIDER, NULL
from headrace.model.queues.items import ItemState, State

# Between the fields of an item.
FIELD = "\x1f"
# How many fields an item without optional fields has, without and with a channel.
MAX_PLAIN_ROWS = 4
MAX_PLAIN_PER_CHANNEL = 5
_TEXTS = frozenset(
    ("payload", "key_values", "subject", "headers", "overrides", "error", "successor")
)
_ALL = (
    *("id", "position", "created_at", "payload", "key_values"),
    *("format", "subject", "priority", "next_execution", "waiting_since"),
    *("attempts", "crashes", "iterations", "last_iteration"),
    *("headers", "overrides", "lease_until", "error", "successor"),
)


class DecodedClaim(NamedTuple):
    """What the items of a claim have in common."""

    queue: str
    token: str
    worker: str | None
    # The time of the claim, and the end of the lease unless an item has its own.
    now: int
    until: int


def items_in(text: str | None, claim: DecodedClaim) -> list[ItemState]:
    """The items, in no particular order."""
    return [_item(line.split(FIELD), claim) for line in text.split(DIVIDER)] if text else []


def channels_in(text: str | None) -> list[str]:
    """The channel of each item, where each has one."""
    return (
        [line.split(FIELD, MAX_PLAIN_PER_CHANNEL)[MAX_PLAIN_ROWS] for line in text.split(DIVIDER)]
        if text
        else []
    )


def _item(fields: list[str], claim: DecodedClaim) -> ItemState:
    if len(fields) > MAX_PLAIN_PER_CHANNEL:
        return _item_with_all(fields, claim)
    created_at = int(fields[2])
    return ItemState(
        id=int(fields[0]),
        queue=claim.queue,
        payload=fields[3],
        state=State.ACTIVE,
        position=int(fields[1]),
        next_execution=created_at,
        waiting_since=created_at,
        created_at=created_at,
        attempts=1,
        token=claim.token,
        lease_until=claim.until,
        claimed_at=claim.now,
        worker=claim.worker,
        key_values=fields[MAX_PLAIN_ROWS] if len(fields) > MAX_PLAIN_ROWS else None,
    )


def _item_with_all(fields: list[str], claim: DecodedClaim) -> ItemState:
    known: dict[str, Any] = {
        field: text if field in _TEXTS else int(text)
        for field, text in zip(_ALL, fields, strict=True)
        if text != NULL
    }
    return ItemState(
        queue=claim.queue,
        state=State.ACTIVE,
        token=claim.token,
        claimed_at=claim.now,
        worker=claim.worker,
        **known,
    )
