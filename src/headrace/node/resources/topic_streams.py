"""``/topics/{topic}/stream``: the records of a topic as they are committed, as Server-Sent Events."""

from __future__ import annotations

import msgspec

from headrace.model.names import check_topic
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.topics import RecordView
from headrace.node.streams.place import find_place
from headrace.node.streams.response import RecordStream

LAST_EVENT_ID = b"last-event-id"


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a stream begins: behind ``last_event_id``, or at ``start``, or at the first record.

    ``start`` is an id, ``:seq``, milliseconds, or ``$`` for new records only. A client that comes
    back sends the header ``Last-Event-ID``, which counts before both.
    """

    start: str | None = None
    last_event_id: str | None = None


async def stream_records(call: ApiCall[None, StreamQuery]) -> RecordStream:
    """Records as events, without an end: ``id`` is the record's, ``data`` the record."""
    topic = check_topic(call["topic"])
    after = call.request.header(LAST_EVENT_ID) or call.query.last_event_id
    place = await find_place(call.store, topic, start=call.query.start, after=after)
    return RecordStream(call.store, place)


ENDPOINTS = [
    Endpoint(
        method="GET",
        path="/topics/{topic}/stream",
        summary="Stream the records of a topic",
        handle=stream_records,
        query=StreamQuery,
        event=RecordView,
    ),
]
