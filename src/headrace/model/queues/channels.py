"""Channels: which of them a query selects, and how a claim is shared among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from headrace.model.query.evaluator import Matcher
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.queues.items import Document, ItemState, State, overrides_of, rank_of
from headrace.model.queues.settings import Discipline, QueueSettings

# How many items a claim selects from a channel in its turn, by default.
QUANTUM = 10
# The smallest mean number of items per channel that the next width is computed with.
MIN_YIELD = 0.5
# For how long the store remembers items that were deleted with their channel while in flight.
GONE_SECONDS = 24 * 3600
# How many selections a queue stores, and for how long after they were last registered.
MAX_SELECTIONS = 64
SELECTION_SECONDS = 24 * 3600
_EVERY = Query().form


@lru_cache(maxsize=2**16)
def selects(query: str, key_values: str) -> bool:
    """Whether a query selects a channel, both given by their forms.

    Claims evaluate the same channels repeatedly, so the answers are cached.
    """
    return _matcher(query)(KeyValues.read(key_values))


def selects_all(query: str) -> bool:
    """Whether a query selects every channel there can be."""
    return query == _EVERY


def is_updateable(item: ItemState | Document) -> bool:
    """Whether newer content in its channel may replace the item."""
    return item.subject is None and overrides_of(item).updateable is True


def is_replaceable(last: ItemState, document: Document, due: int, now: int) -> bool:
    """Whether a document for a channel replaces the last item in its line."""
    return document.subject is None and due <= now and is_updateable(last)


def gives_way(failed: ItemState, settings: QueueSettings, last: ItemState | None) -> bool:
    """Whether a failed item is dropped because the last item in line is newer."""
    if last is None or failed.subject is not None:
        return False
    where = overrides_of(failed).retry_position or settings.retry_position
    return is_updateable(failed if where == "front" else last)


def is_behind(item: ItemState, other: ItemState, discipline: Discipline) -> bool:
    """Whether an item that joins the line now is placed behind another."""
    if rank_of(discipline, item.priority) != rank_of(discipline, other.priority):
        return rank_of(discipline, item.priority) < rank_of(discipline, other.priority)
    return discipline != "lifo"


def blocks(item: ItemState) -> bool:
    """Whether a serial channel waits for the item: it is in flight, or will return to its place."""
    is_kept = item.state == State.PLANNED and item.position is not None
    return item.key_values is not None and (is_kept or item.state == State.ACTIVE)


def unblocks(before: ItemState, after: ItemState | None) -> bool:
    """Whether a serial channel may continue when an item changes, or is removed (None)."""
    return blocks(before) and (after is None or not blocks(after))


@lru_cache(maxsize=2**8)
def _matcher(query: str) -> Matcher:
    return Query.from_json(query).compiled()


class Sharing:
    """Shares a claim of ``count`` items among channels.

    First the claim selects up to a quantum from each channel, in the order of turns. If that is
    not enough, channels with more items share the rest equally. A serial channel gives one item.
    """

    def __init__(self, count: int, quantum: int, *, is_strict: bool) -> None:
        self.left = count
        self.quantum = 1 if is_strict else quantum
        self.served: list[str] = []
        self.hungry: list[str] = []
        self._is_strict = is_strict
        self._asked = self._given = 0

    @property
    def width(self) -> int:
        """How many more channels are probably needed for the rest."""
        each = self._given / self._asked if self._asked else self.quantum
        return math.ceil(self.left / max(each, MIN_YIELD))

    @property
    def share(self) -> int:
        """How many items to request from each channel with more items."""
        return max(self.quantum, math.ceil(self.left / len(self.hungry)))

    def note(self, channels: Sequence[str], each: int, given: Mapping[str, int]) -> None:
        """Record that ``each`` items were requested from channels, and how many each gave."""
        self._asked += len(channels)
        self._given += sum(given.values())
        self.left -= sum(given.values())
        known = set(self.served)
        self.served += [
            channel for channel in channels if channel in given and channel not in known
        ]
        if not self._is_strict:
            full = [channel for channel in channels if given.get(channel, 0) == each]
            asked = set(channels)
            self.hungry = [other for other in self.hungry if other not in asked] + full
