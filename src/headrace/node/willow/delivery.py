"""The id of a delivery: an item as one claim has it.

Willow names an item, so that an ack that comes late settles the delivery of another consumer. Here
the id names the claim, and is different for each delivery. For clients it is a text.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from headrace.errors import ItemGone, ItemLost
from headrace.model.checks import MAX_NUMBER
from headrace.model.query.key_values import KeyValues
from headrace.model.times import MAX_MS
from headrace.node.willow.numbers import read_number

CHECK_CHARS = 8


class ItemDelivery(NamedTuple):
    """An item, the token of its claim, how long a heartbeat extends that, and its channel."""

    item: int
    token: str
    lease_ms: int
    check: str

    @property
    def id(self) -> str:
        """The id for clients."""
        return f"{self.item}.{self.token}.{self.lease_ms}.{self.check}"


def check_of(form: str) -> str:
    """Some characters that differ from channel to channel."""
    return hashlib.blake2b(form.encode(), digest_size=16).hexdigest()[:CHECK_CHARS]


def read_delivery(id: str, channel: KeyValues) -> ItemDelivery:
    """A delivery by its id; ``ItemLost`` if there is none in the channel."""
    parts = id.split(".")
    if len(parts) != len(ItemDelivery._fields):
        raise lost()
    item, token, lease, check = parts
    found = ItemDelivery(read_number(item, MAX_NUMBER), token, read_number(lease, MAX_MS), check)
    if not all(found) or check != check_of(channel.form):
        raise lost()
    return found


def lost() -> ItemLost:
    """The error for a delivery that is over."""
    return ItemLost(
        "no item is processed in this channel under this ItemID: its time ran out and it was, or "
        "will be, delivered again under another ItemID, or it was acked before. Dequeue again."
    )


def gone() -> ItemGone:
    """The error for a delivery whose channel was deleted."""
    return ItemGone("the item was deleted with its channel: stop working on it.")
