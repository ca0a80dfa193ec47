"""Channels: which of them a query selects, and how much each gives in its turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from headrace.model.evaluating import Matcher
from headrace.model.items import Document, ItemState, State, overrides_of, rank_of
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.model.queues import Discipline, QueueSettings

# How many items a channel gives in its turn, unless somebody says otherwise.
QUANTUM = 10
# Channels that gave less than this are not worth asking many more of them at once.
SHALLOWEST = 0.5
# How long it is remembered that an item went with its channel while it was out.
GONE_SECONDS = 24 * 3600
# How many selections a queue remembers, and for how long after they were last registered.
MOST_SELECTIONS = 64
SELECTION_SECONDS = 24 * 3600
_EVERY = Query().form


@lru_cache(maxsize=2**16)
def selects(query: str, key_values: str) -> bool:
    """Whether a query selects a channel, both given by their forms.

    Claims ask it of the same channels again and again, so the answers are kept.
    """
    return _matcher(query)(KeyValues.read(key_values))


def selects_all(query: str) -> bool:
    """Whether a query selects every channel there can be."""
    return query == _EVERY


def is_updateable(item: ItemState | Document) -> bool:
    """Whether newer content in its channel may take the item's place."""
    return item.subject is None and overrides_of(item).updateable is True


def is_replaceable(last: ItemState, document: Document, due: int, now: int) -> bool:
    """Whether a document for a channel goes in place of the last item in its line."""
    return document.subject is None and due <= now and is_updateable(last)


def gives_way(failed: ItemState, settings: QueueSettings, last: ItemState | None) -> bool:
    """Whether a failed item is dropped, since what is (last) in line is newer."""
    if last is None or failed.subject is not None:
        return False
    where = overrides_of(failed).retry_position or settings.retry_position
    return is_updateable(failed if where == "front" else last)


def is_behind(item: ItemState, other: ItemState, discipline: Discipline) -> bool:
    """Whether an item that comes into line now comes to stand behind another."""
    if rank_of(discipline, item.priority) != rank_of(discipline, other.priority):
        return rank_of(discipline, item.priority) < rank_of(discipline, other.priority)
    return discipline != "lifo"


def blocks(item: ItemState) -> bool:
    """Whether a strict channel waits for the item: it is out, or will return to its place."""
    is_kept = item.state == State.PLANNED and item.position is not None
    return item.key_values is not None and (is_kept or item.state == State.ACTIVE)


def unblocks(before: ItemState, after: ItemState | None) -> bool:
    """Whether a strict channel may go on when an item changes, or goes (None)."""
    return blocks(before) and (after is None or not blocks(after))


@lru_cache(maxsize=2**8)
def _matcher(query: str) -> Matcher:
    return Query.from_json(query).compiled()


class Sharing:
    """How a claim on so many items is shared among channels that take turns.

    First each channel, in the order of turns, gives up to a quantum. If that is not enough,
    those that have more share the rest alike. A strict channel gives one item.
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
        """How many channels it will probably take for the rest."""
        each = self._given / self._asked if self._asked else self.quantum
        return math.ceil(self.left / max(each, SHALLOWEST))

    @property
    def share(self) -> int:
        """How many each of those that have more is to give."""
        return max(self.quantum, math.ceil(self.left / len(self.hungry)))

    def note(self, channels: Sequence[str], each: int, given: Mapping[str, int]) -> None:
        """Channels were asked for some items each, and gave so many."""
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
