"""Items that were just handed out, as the database tells of them: in one text.

See ``headrace.hand_out``. What all of them have in common is known here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.drivers.postgres.sending import DIVIDER, NULL
from headrace.model.items import ItemState, State

# Between the fields of an item.
FIELD = "\x1f"
# How many there are of one that has nothing of its own, without and with a channel.
FEW = 4
FEW_IN_A_CHANNEL = 5
_TEXTS = frozenset(
    ("payload", "key_values", "subject", "headers", "overrides", "error", "successor")
)
_ALL = (
    *("id", "position", "created_at", "payload", "key_values"),
    *("format", "subject", "priority", "next_execution", "waiting_since"),
    *("attempts", "crashes", "iterations", "last_iteration"),
    *("headers", "overrides", "lease_until", "error", "successor"),
)


class Claim(NamedTuple):
    """What the items of a claim have in common."""

    queue: str
    token: str
    worker: str | None
    # When it was, and until when it stands, unless an item says otherwise.
    now: int
    until: int


def items_in(text: str | None, claim: Claim) -> list[ItemState]:
    """The items, in no order."""
    return [_item(line.split(FIELD), claim) for line in text.split(DIVIDER)] if text else []


def channels_in(text: str | None) -> list[str]:
    """The channel of each, where all are in one."""
    return (
        [line.split(FIELD, FEW_IN_A_CHANNEL)[FEW] for line in text.split(DIVIDER)] if text else []
    )


def _item(fields: list[str], claim: Claim) -> ItemState:
    if len(fields) > FEW_IN_A_CHANNEL:
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
        key_values=fields[FEW] if len(fields) > FEW else None,
    )


def _item_with_all(fields: list[str], claim: Claim) -> ItemState:
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
