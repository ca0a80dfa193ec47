"""Parts of streams, where a whole one would show a fault only now and then."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
from stream_clients import Socket

from headrace.contract.store import Store
from headrace.node.app import NodeApp
from headrace.node.http import HttpRequest
from headrace.node.root_app import RootApp
from headrace.node.store_access import StoreAccess
from headrace.node.streams.events import EventStream
from headrace.node.streams.head import News, TopicHead
from headrace.node.streams.place import Place
from headrace.node.streams.reader import TopicStreamReader
from headrace.node.streams.records import EncodedRecord
from headrace.node.streams.words import Words


class Head:
    """Notes which streams leave it."""

    def __init__(self) -> None:
        self.left: list[object] = []

    def leave(self, follower: object) -> None:
        self.left.append(follower)


def news(first: int, last: int) -> News:
    return News([EncodedRecord(seq, b"1-%d" % seq, b"{}") for seq in range(first, last + 1)])


async def test_a_stream_that_is_ahead_of_the_head_gets_nothing_twice() -> None:
    """It may have read records by itself before the head has."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["body"])

    head, place = Head(), Place("orders", seq=5)
    reader = TopicStreamReader(cast("Any", None), cast("TopicHead", head), place)
    stream = EventStream(cast("HttpRequest", None), reader, send)
    stream.deliver(news(3, 4))
    assert (sent, head.left, place.seq) == ([], [], 5)
    # It reads the rest of these by itself.
    stream.deliver(news(3, 6))
    assert (sent, head.left, place.seq) == ([], [stream], 5)
    stream.deliver(news(5, 6))
    assert b"".join(sent) == b"id: 1-5\ndata: {}\n\nid: 1-6\ndata: {}\n\n"
    assert place.seq == 7


async def test_a_reader_looks_from_time_to_time_though_nothing_is_announced() -> None:
    """A listener that only passes hints on has nothing to pass on."""

    class Silent:
        """A waiter whose hints are all lost."""

        def wait(self, seconds: float) -> bool:
            return False

        def wake(self) -> None:
            pass

        def close(self) -> None:
            pass

    class SilentStore:
        def waiter(self, word: str) -> Silent:
            return Silent()

    words = Words(cast("Store", SilentStore()))
    with (
        words.listening("orders", polls=True) as (looks, _),
        words.listening("orders") as (listens, _),
    ):
        async with asyncio.timeout(30):
            await looks.news.wait()
        assert not listens.news.is_set()
    await words.aclose()


async def test_a_socket_is_refused_while_the_store_is_away() -> None:
    def open_store() -> Store:
        raise AssertionError

    root = RootApp(StoreAccess(open_store))
    for path in ("/api/v1/socket", "/health", "/ready"):
        socket = Socket(cast("NodeApp", root), path)
        await socket.end()
        assert socket.answer["status"] == 503
        assert msgspec.json.decode(socket.refusal)["code"] == "store_unavailable"
