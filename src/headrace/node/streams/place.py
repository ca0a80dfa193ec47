"""Where a reader of a topic begins, and where it goes on."""

from __future__ import annotations

from headrace.contract.values import RangeQuery
from headrace.errors import InvalidPosition, UnknownSeq, UnknownTopic
from headrace.model.topics.positions import OPEN, Position, parse_end
from headrace.node.guarded_store import GuardedStore

NEW_ONLY = "$"


async def find_place(
    store: GuardedStore, topic: str, *, start: str | None = None, after: str | None = None
) -> Place:
    """The place ``after`` a record, else that at which to ``start``, else the first record.

    ``start`` is an id, milliseconds, ``:seq``, or ``$`` for new records only. The topic may have no
    records yet. A place whose record was removed is found all the same: its reader is told so.
    """
    if after:
        position = parse_end(after)
        if position.ts is None or position.seq is None:
            raise InvalidPosition(
                f"{after!r} is not the id of a record, like '1518951480106-7': send the last id that "
                "was received.",
                position=after,
            )
        place = Place(topic, position, is_behind=True)
    elif start == NEW_ONLY:
        try:
            return Place(topic, seq=(await store.arun(store.topics.info(topic))).next_seq)
        except UnknownTopic:
            return Place(topic, seq=0)
    else:
        place = Place(topic, parse_end(start))
    await place.resolve(store)
    return place


class Place:
    """A place in a topic: ``seq`` is the next record's number; None while no record says it.

    Ids and times may lie in the future: then it is the first record from there on, and ``end`` is
    where the topic ended when that was looked up.
    """

    def __init__(
        self,
        topic: str,
        position: Position = OPEN,
        *,
        is_behind: bool = False,
        seq: int | None = None,
    ) -> None:
        self.topic = topic
        self.seq = seq
        self.end = 0
        self._position = position
        self._is_behind = is_behind

    async def resolve(self, store: GuardedStore) -> int | None:
        """The number of the next record, if it can be known by now."""
        if self.seq is None:
            self.seq = await self._resolved(store)
        return self.seq

    async def _resolved(self, store: GuardedStore) -> int | None:
        position, topics = self._position, store.topics
        try:
            info = await store.arun(topics.info(self.topic))
        except UnknownTopic:
            info = None
        first, self.end = (0, 0) if info is None else (info.first_seq, info.next_seq)
        if position.is_open:
            return first
        if position.seq is not None:
            wanted = position.seq + self._is_behind
            if wanted < first:
                return wanted  # it was removed
            if position.is_seq:
                if wanted > self.end:
                    raise UnknownSeq(
                        f"topic {self.topic!r} has no record :{position.seq} yet: the next one is "
                        f":{self.end}; start there, or at '$' for new records only.",
                        topic=self.topic,
                    )
                return wanted
        if info is None:
            return None
        query = RangeQuery(
            topic=self.topic, start=position, exclusive=self._is_behind, limit=1, max_bytes=1
        )
        page = await store.arun(topics.read(query))
        is_ahead = position.ts is not None and position.ts > page.topic.last_ts
        return None if is_ahead else page.low
