"""A subscription to a topic: records, as many as there is credit for."""

from __future__ import annotations

import asyncio

import msgspec

from headrace.node.guarded_store import GuardedStore
from headrace.node.streams.head import News, TopicHeads
from headrace.node.streams.place import Place
from headrace.node.streams.reader import Overtaken, TopicStreamReader
from headrace.node.web_socket.messages import Id, OvertakenSubscription, encode
from headrace.node.web_socket.socket import WebSocket
from headrace.node.web_socket.subscription import checked_credit

MAX_MESSAGE_RECORDS = 500
MESSAGE_BYTES = 64 * 1024


class TopicSubscription:
    """Sends records of a topic to a socket."""

    def __init__(
        self,
        id: Id,
        socket: WebSocket,
        heads: TopicHeads,
        store: GuardedStore,
        place: Place,
        credit: int,
    ) -> None:
        self._id = id
        self._name = msgspec.json.encode(id)
        self._socket = socket
        self._heads = heads
        self._store = store
        self._place = place
        self._credit = checked_credit(credit)
        self._has_credit = asyncio.Event()
        self._has_credit.set()
        self._news = asyncio.Event()

    def add_credit(self, credit: int) -> int:
        self._credit = checked_credit(credit, self._credit)
        self._has_credit.set()
        return self._credit

    async def run(self) -> None:
        with self._heads.head(self._place.topic) as head:
            self._head, reader = head, TopicStreamReader(self._store, head, self._place)
            try:
                while True:
                    await self._has_credit.wait()
                    self._news.clear()
                    if not await self._send_some(reader) and head.join(self, reader.end):
                        await self._news.wait()
            finally:
                head.leave(self)

    async def _send_some(self, reader: TopicStreamReader) -> bool:
        """Send what there is; False at the end of the topic."""
        limit = min(self._credit, MAX_MESSAGE_RECORDS)
        found = await reader.read(limit, MESSAGE_BYTES)
        if isinstance(found, Overtaken):
            told = OvertakenSubscription(subscription=self._id, problem=found.problem)
            await self._socket.send(encode(told))
            reader.went_on(found.last + 1)
        elif found:
            records = b",".join([record.json for record in found])
            await self._socket.send(
                b'{"type":"records","subscription":%b,"records":[%b]}' % (self._name, records)
            )
            reader.went_on(found[-1].seq + 1)
            self._credit -= len(found)
            if not self._credit:
                self._has_credit.clear()
        return bool(found)

    def deliver(self, news: News) -> None:
        seq = self._place.seq
        if seq is None or seq < news.following:
            # The records are kept at the head, so they are not read once more.
            self.wake()

    def wake(self) -> None:
        self._head.leave(self)
        self._news.set()
