"""All streams of a node."""

from __future__ import annotations

from headrace.contract.store import Store
from headrace.errors import StoreUnavailable
from headrace.node.guard import Guard, RequestIdentity
from headrace.node.http import Headers, HttpRequest, Send, finish
from headrace.node.shutdown import Closing
from headrace.node.streams.events import EventStream, last_event
from headrace.node.streams.head import TopicHeads
from headrace.node.streams.keeper import StreamKeeper
from headrace.node.streams.reader import TopicStreamReader
from headrace.node.streams.response import RecordStream
from headrace.node.streams.slots import StreamSlots
from headrace.node.streams.words import Words

EVENT_STREAM = "text/event-stream"


class NodeStreams:
    """What streams share: waiters, heads of topics, limits and the keeper."""

    def __init__(self, store: Store, guard: Guard, closing: Closing) -> None:
        self._closing = closing
        self.words = Words(store)
        self.slots = StreamSlots()
        self.heads = TopicHeads(store, self.words)
        self.keeper = StreamKeeper(guard, closing)

    def check(self, identity: RequestIdentity) -> None:
        """Raise if an identity cannot have another stream now."""
        if self._closing.has_begun:
            raise StoreUnavailable("the node is stopping: try again when it is back.")
        self.slots.check(identity)

    async def send_records(
        self, request: HttpRequest, response: RecordStream, send: Send, headers: Headers
    ) -> int:
        """Send a stream of records until its client leaves, or may no longer have it."""
        head = [
            *headers,
            (b"content-type", EVENT_STREAM.encode()),
            (b"cache-control", b"no-store"),
            # The end of the stream is the end of its connection.
            (b"connection", b"close"),
            # For proxies in front of a node.
            (b"x-accel-buffering", b"no"),
        ]
        with self.slots.held(request.identity), self.heads.head(response.place.topic) as topic:
            await send({"type": "http.response.start", "status": 200, "headers": head})
            stream = EventStream(
                request, TopicStreamReader(response.store, topic, response.place), send
            )
            with self.keeper.keeping(stream):
                problem = await stream.run()
            await finish(request, send, b"" if problem is None else last_event(problem))
        return 200

    def close(self) -> None:
        """End all waiters."""
        self.words.close()

    async def aclose(self) -> None:
        """Wait for everything that was started, once the node is stopping."""
        await self.keeper.aclose()
        await self.words.aclose()
