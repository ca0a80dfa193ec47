"""Items as handlers see them."""

from __future__ import annotations

from headrace.client.items import ItemView
from headrace.core.times import Duration
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.items import ItemState

Wait = Duration
Item = ItemView
"""What a handler gets: an item to look at. What it returns says what becomes of it."""


def item_of(state: ItemState) -> ItemView:
    """A claimed item."""
    return ItemView(state, max_body=DEFAULT_MAX_BODY, is_claimed=True)
