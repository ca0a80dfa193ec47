"""Connections to a node: too many, too slow, with headers that are too long."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
import uvicorn
from node_process import PATIENCE, Up, up
from uvicorn.server import ServerState

from headrace.node import connections
from headrace.node.web_socket import connection as web_socket
from headrace.node.web_socket.connection import SocketConnection

HELLO = b"GET /ready HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Up]:
    with up("memory://") as node:
        yield node


def connect(node: Up) -> socket.socket:
    host, _, port = node.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), PATIENCE)


def ends(connection: socket.socket) -> bytes:
    """What the node sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def test_headers_without_an_end_are_cut_off(node: Up) -> None:
    with connect(node) as connection:
        connection.sendall(HELLO)
        with contextlib.suppress(OSError):
            for n in range(1000):
                connection.sendall(b"x-%d: %s\r\n" % (n, b"y" * 4000))
        assert b"200" not in ends(connection)
    assert node.get("/ready")[0] == 200


def test_a_body_is_not_counted_as_headers(node: Up) -> None:
    """Nor are the headers of several requests added up."""
    body = b"x" * (connections.MAX_HEAD_BYTES * 2)
    with contextlib.closing(
        HTTPConnection(node.url.removeprefix("http://"), timeout=PATIENCE)
    ) as c:
        for _ in range(3):
            c.request("POST", "/api/v1/node", body)
            response = c.getresponse()
            assert (response.status, bool(response.read())) == (405, True)


def test_long_headers_in_one_piece_are_refused(node: Up) -> None:
    with connect(node) as connection:
        connection.sendall(
            b"GET /api/v1/node HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 40_000 + b"\r\n\r\n"
        )
        assert connection.recv(12) == b"HTTP/1.1 431"


def test_descriptors_limit_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(connections.resource, "setrlimit", lambda _, pair: limits.append(pair))
    for found, expected, raised in (
        ((1024, 1024), 1024 - connections.OTHER_DESCRIPTORS, [(1024, 1024)]),
        ((1024, 100_000), connections.MAX_CONNECTIONS, [(2256, 100_000)]),
        ((100_000, 100_000), connections.MAX_CONNECTIONS, []),
        ((100, 100), 1, [(100, 100)]),
    ):
        limits.clear()
        monkeypatch.setattr(connections.resource, "getrlimit", lambda _, found=found: found)
        assert (connections.connection_limit(), limits) == (expected, raised)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """A port with the connections of a node, in this process."""
    config = uvicorn.Config(hello, http=connections.NodeConnection, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: connections.NodeConnection(config, state, {}), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1]


async def until_closed(port: int, *pieces: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(PATIENCE):
        for piece in pieces:
            writer.write(piece)
        received = await reader.read()
    writer.close()
    return received


async def test_slow_headers_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a client that sends nothing."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    async with listening() as port:
        assert await until_closed(port) == b""
        assert await until_closed(port, HELLO) == b""


async def test_slow_headers_of_a_later_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            writer.write(HELLO + b"\r\n")
            await reader.readuntil(b"hello")
            monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
            writer.write(HELLO)
            # The end of the first response, and no second one.
            assert b"hello" not in await reader.read()
        writer.close()


async def test_empty_lines_do_not_keep_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end the keep-alive time, though no request begins with them."""
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            writer.write(HELLO + b"\r\n")
            await reader.readuntil(b"hello")
            monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
            writer.write(b"\r\n")
            assert b"hello" not in await reader.read()
        writer.close()


async def test_more_connections_than_allowed_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.NodeConnection, "limit", 1)
    async with listening() as port:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        head, _, body = (await until_closed(port)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in head
        assert msgspec.json.decode(body)["code"] == "too_many_connections"
        first.close()
        await first.wait_closed()


async def test_a_body_that_is_refused_does_not_come_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that has its answer cannot keep the connection with a body that nobody reads."""
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            # The rest that comes in time ends the request, and the connection is used again.
            writer.write(head + b"body")
            await reader.readuntil(b"hello")
            writer.write(b" ends" + head)
            await reader.readuntil(b"hello")
        writer.close()
        monkeypatch.setattr(connections, "REST_SECONDS", 0.05)
        assert b"hello" in await until_closed(port, head, b"body")


class Socket:
    """A WebSocket without a library, so that it can leave out what a client should do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(
            b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return cls(reader, writer)

    async def echo(self, text: bytes) -> None:
        """Send a short text, and get it back."""
        self.writer.write(b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text)
        assert await self.reader.readexactly(2 + len(text)) == b"\x81" + bytes([len(text)]) + text


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that accepts sockets; to ``flood`` it answers with much more."""
    await receive()
    await send({"type": "websocket.accept"})
    with contextlib.suppress(OSError):
        while (message := await receive())["type"] == "websocket.receive":
            if message["text"] == "flood":
                while True:
                    await send({"type": "websocket.send", "text": "x" * 100_000})
            await send({"type": "websocket.send", "text": message["text"]})


@asynccontextmanager
async def listening_to_sockets(**options: Any) -> AsyncIterator[tuple[int, ServerState]]:
    config = uvicorn.Config(
        echo,
        http=connections.NodeConnection,
        ws=SocketConnection,
        lifespan="off",
        log_config=None,
        **options,
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: connections.NodeConnection(config, state, {}), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1], state


async def test_a_socket_may_be_quiet_for_longer_than_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    async with listening_to_sockets() as (port, _), asyncio.timeout(PATIENCE):
        client = await Socket.open(port)
        for _ in range(2):
            await client.echo(b"hello")
            await asyncio.sleep(0.1)
        await client.echo(b"bye")
        client.writer.close()


@pytest.mark.parametrize("way", ["ping", "stop"])
async def test_a_socket_whose_client_reads_nothing_is_cut_off(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it should have read never leaves the node."""
    monkeypatch.setattr(web_socket, "CUT_OFF_SECONDS", 0.05)
    options = {"ws_ping_interval": 0.05, "ws_ping_timeout": 0.1} if way == "ping" else {}
    async with listening_to_sockets(**options) as (port, state), asyncio.timeout(PATIENCE):
        client = await Socket.open(port)
        client.writer.write(b"\x81\x85" + bytes(4) + b"flood")
        [connection] = state.connections
        while connection.writable.is_set():  # type: ignore[union-attr]  # of a socket
            await asyncio.sleep(0.01)
        if way == "stop":
            connection.shutdown()
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)
        client.writer.close()
