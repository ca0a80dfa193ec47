"""Items as handlers get them."""

from __future__ import annotations

from headrace.client.items import Item
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.queues.items import ItemState

__all__ = ["Item", "item_of"]


def item_of(state: ItemState) -> Item:
    """A claimed item."""
    return Item(state, max_body=DEFAULT_MAX_BODY, is_claimed=True)
