"""The response that is a stream of records."""

from __future__ import annotations

from headrace.node.guarded_store import GuardedStore
from headrace.node.streams.place import Place


class RecordStream:
    """The records of a topic from a place on, as events. ``NodeStreams`` sends it."""

    def __init__(self, store: GuardedStore, place: Place) -> None:
        self.store = store
        self.place = place
