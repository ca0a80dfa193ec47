"""Streams and sockets of a node in a process of its own: connections that break, and its end."""

from __future__ import annotations

import http.client
import json
import random
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from node_process import PATIENCE, Up, up
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import headrace

STORES = pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])


def url_of(request: pytest.FixtureRequest, store: str) -> str:
    """The URL of an empty store; of one in memory that each process has for itself."""
    fixture = "new_postgres_url" if store == "postgres" else f"{store}_url"
    return str(request.getfixturevalue(fixture))


class Stream:
    """A stream of events over a connection of its own."""

    def __init__(self, node: Up, query: str = "", last_id: str | None = None) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(node.url).netloc, timeout=PATIENCE)
        headers = {"authorization": f"Bearer {node.token}"}
        if last_id is not None:
            headers["last-event-id"] = last_id
        self._connection.request("GET", f"/api/v1/topics/orders/stream{query}", headers=headers)
        self.socket = self._connection.sock
        self.response = self._connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def records(self) -> Iterator[tuple[str, Any]]:
        """The id and the record of each event, until the stream ends."""
        id = ""
        while line := self.response.readline().decode():
            field, _, value = line.rstrip("\n").partition(": ")
            if field == "id":
                id = value
            elif field == "data":
                assert self.response.readline() == b"\n"
                yield id, json.loads(value)

    def break_off(self) -> None:
        """End the connection without a word."""
        self.response.close()
        self._connection.close()


def open_socket(node: Up, **options: Any) -> AbstractContextManager[ClientConnection]:
    headers = {"Authorization": f"Bearer {node.token}"}
    url = node.url.replace("http", "ws", 1) + "/api/v1/socket"
    return connect(url, additional_headers=headers, **options)


def ask(client: ClientConnection, **message: Any) -> Any:
    client.send(json.dumps(message))
    return json.loads(client.recv(PATIENCE))


class Writer:
    """Commits to a node until it is stopped."""

    def __init__(self, node: Up, *, pause: float = 0.001) -> None:
        self.committed: list[str] = []
        self._has_ended = threading.Event()
        self._pause = pause
        self._url = node.url
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with headrace.connect(self._url) as hr:
            while not self._has_ended.wait(self._pause):
                self.committed.append(hr.commit("orders", {"n": len(self.committed)}))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join(PATIENCE)


@STORES
def test_over_100_broken_connections_nothing_is_missing_and_nothing_comes_twice(
    request: pytest.FixtureRequest, store: str
) -> None:
    """Each time the client comes back with the last id that it has received completely."""
    choice = random.Random(7)
    with up(url_of(request, store), HEADRACE_MIGRATE="create") as node:
        received: list[str] = []
        with Writer(node) as writer:
            for _ in range(100):
                stream = Stream(node, last_id=received[-1] if received else None)
                records = stream.records()
                received += [next(records)[0] for _ in range(choice.randrange(1, 8))]
                stream.break_off()
        stream = Stream(node, last_id=received[-1])
        records = stream.records()
        while len(received) < len(writer.committed):
            received.append(next(records)[0])
        assert received == writer.committed
        stream.break_off()


@pytest.mark.parametrize(
    "store", ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.thorough)]
)
def test_a_node_with_streams_and_sockets_stops_quickly(
    request: pytest.FixtureRequest, store: str
) -> None:
    """Also if clients read nothing, and if some have claimed items."""
    with up(url_of(request, store), HEADRACE_MIGRATE="create") as node, ExitStack() as stack:
        with headrace.connect(node.url) as hr:
            items = [hr.push("mail", {"n": n}).ids[0] for n in range(20)]
            for _ in range(4):
                hr.commit_many("orders", [{"text": "x" * 100_000} for _ in range(50)])
        streams = [Stream(node, "?start=$") for _ in range(100)]
        stalled = [Stream(node) for _ in range(3)]
        sockets = [stack.enter_context(open_socket(node)) for _ in range(10)]
        for client in sockets:
            assert ask(client, id=1, type="subscribe", topic="orders", credit=10, start="$")
            assert ask(client, id=2, type="subscribe", queue="mail", credit=1)
            assert json.loads(client.recv(PATIENCE))["type"] == "items"
        silent = stack.enter_context(open_socket(node, max_queue=1, close_timeout=0))
        silent.send(json.dumps({"id": 1, "type": "subscribe", "topic": "orders", "credit": 1000}))
        for stream in stalled:
            # Its buffers are full by then.
            wait_until_full(stream.socket)
        node.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        assert node.process.wait(PATIENCE) == 0
        assert time.monotonic() - begun < 3
        assert node.process.stderr is not None
        assert "exceeded" not in node.process.stderr.read()
        for stream in streams:
            assert list(stream.records()) == []
            stream.break_off()
        for client in sockets:
            with pytest.raises(ConnectionClosed) as closed:
                client.recv(PATIENCE)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        for stream in stalled:
            stream.break_off()
    if store != "memory":
        with headrace.connect(url_of(request, store)) as hr:
            found = [hr.queue("mail").item(item) for item in items]
            assert {(str(item.state), item.attempts) for item in found} == {("pending", 0)}


def wait_until_full(connection: socket.socket) -> None:
    """Wait until a connection brings no more, because nobody reads."""
    size = -1
    while size != (size := len(connection.recv(2**24, socket.MSG_PEEK))):
        time.sleep(0.1)


def resident_bytes(pid: int) -> int:
    """How much memory a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.thorough
def test_a_thousand_streams_cost_little_memory_though_some_read_nothing(tmp_path: Path) -> None:
    """The node keeps a few messages for a slow client; all that it missed comes from the store."""
    url = f"sqlite:///{tmp_path / 'flow.db'}"
    with up(url, HEADRACE_MIGRATE="create") as node, headrace.connect(node.url) as hr:
        streams = [Stream(node) for _ in range(990)]
        before = resident_bytes(node.pid)
        quick, slow = streams[:50], streams[50:]
        ids = []
        for _ in range(20):
            # Much more than the buffers of a connection hold.
            ids += hr.commit_many("orders", [{"text": "x" * 10_000} for _ in range(50)])
            for stream in quick:
                assert [id for id, _ in islice(stream.records(), 50)] == ids[-50:]
        assert resident_bytes(node.pid) - before < 400 * 2**20
        for stream in slow[:20]:
            assert [id for id, _ in islice(stream.records(), len(ids))] == ids
        for stream in streams:
            stream.break_off()


class TestSockets:
    @pytest.fixture
    def node(self) -> Iterator[Up]:
        with up("memory://") as node:
            yield node

    def test_a_message_that_is_too_long_ends_its_socket(self, node: Up) -> None:
        with open_socket(node) as client:
            with pytest.raises(ConnectionClosed) as closed:
                ask(client, id=1, type="push", queue="mail", payload="x" * 3_000_000)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        with open_socket(node) as client:
            answer = ask(client, id=1, type="push", queue="mail", payload="x" * 900_000)
            assert answer["type"] == "pushed"

    def test_a_refusal_is_a_problem_document(self, node: Up) -> None:
        url = node.url.replace("http", "ws", 1) + "/api/v1/socket"
        refused: list[tuple[dict[str, Any], int]] = [
            ({}, 401),
            ({"additional_headers": {"Authorization": f"Bearer {node.token}"}}, 403),
        ]
        for options, status in refused:
            origin = None if status == 401 else "http://elsewhere.example"
            with pytest.raises(InvalidStatus) as refusal, connect(url, origin=origin, **options):
                pass
            response = refusal.value.response
            assert response.status_code == status
            assert response.headers["content-type"] == "application/problem+json"
            assert response.body is not None
            assert json.loads(response.body)["status"] == status

    def test_a_handshake_that_is_none_is_refused(self, node: Up) -> None:
        place = urlsplit(node.url)
        for head in (
            "".join(f"x-{n}: y\r\n" for n in range(300)),
            f"x-long: {'y' * 20_000}\r\n",
            "sec-websocket-version: 8\r\n",
            "sec-websocket-key: short\r\nsec-websocket-version: 13\r\n",
        ):
            with socket.create_connection((place.hostname, place.port), PATIENCE) as connection:
                connection.sendall(
                    (
                        f"GET /api/v1/socket HTTP/1.1\r\nhost: {place.netloc}\r\n"
                        f"connection: upgrade\r\nupgrade: websocket\r\n{head}\r\n"
                    ).encode()
                )
                received = b""
                while chunk := connection.recv(65536):
                    received += chunk
            assert received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 426")), received
        assert node.get("/ready")[0] == 200


def test_no_refusal_is_logged(request: pytest.FixtureRequest) -> None:
    """Any client could fill the log."""
    with up("memory://") as node:
        url = node.url.replace("http", "ws", 1) + "/api/v1/socket"
        for path in ("", "/other"):
            with pytest.raises(InvalidStatus), connect(url + path):
                pass
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE) == 0
        assert node.process.stderr is not None
        log = node.process.stderr.read()
    assert "ASGI" not in log
    assert "Traceback" not in log
