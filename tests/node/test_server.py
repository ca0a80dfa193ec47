"""The node's process: probes, a store that is away, TLS, and the order of a stop."""

import json
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.polling import until
from headrace.contract.store import Store
from headrace.errors import InvalidOption, SchemaTooNew, StoreUnavailable
from headrace.node import connections, tls_acceptor
from headrace.node.root_app import App
from headrace.node.server import NodeServer
from headrace.node.shutdown import Closing
from headrace.node.sockets import ListeningSocket, listen_tcp, listen_unix
from headrace.node.store_access import StoreAccess
from headrace.node.supervised_loop import SupervisedLoop
from headrace.node.tls import TlsFiles, tls_files
from headrace.stores import open_store

PATIENCE = 60.0


def get(url: str, path: str) -> tuple[int, Any, Any]:
    """The status, headers and JSON of a response."""
    try:
        with urllib.request.urlopen(url + path, timeout=PATIENCE) as response:
            return response.status, response.headers, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


def hello_app(store: Store, client: Any, root: Any, closing: Closing) -> App:
    """Answers every request, and with ``/stream`` until the node stops."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await closing.wait()
            await send({"type": "http.response.body", "body": b"last"})
            return
        body = b'{"hello": true}'
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


@contextmanager
def serving(
    open: Callable[[], Store],
    listener: ListeningSocket,
    *,
    tls: TlsFiles | None = None,
    wait: bool = True,
) -> Iterator[NodeServer]:
    """A node in a thread of this process, without signals."""
    is_ready = threading.Event()
    failures: list[BaseException] = []
    server = NodeServer(open, hello_app, [listener], tls=tls, on_ready=is_ready.set)

    def run() -> None:
        try:
            server.run()
        except BaseException as error:
            failures.append(error)
        finally:
            is_ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        if wait:
            assert is_ready.wait(PATIENCE)
            assert not failures, failures
        yield server
    finally:
        server.stop()
        thread.join(PATIENCE)
        listener.close()
    assert not thread.is_alive()
    assert not failures, failures


def test_a_node_answers_its_probes() -> None:
    listener = listen_tcp("127.0.0.1", 0)
    with serving(lambda: open_store("memory://"), listener):
        assert get(listener.url, "/health")[::2] == (200, {"status": "ok"})
        assert get(listener.url, "/ready")[::2] == (200, {"status": "ready"})
        assert get(listener.url, "/anything")[::2] == (200, {"hello": True})
        request = urllib.request.Request(f"{listener.url}/health", method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=PATIENCE)
        with refused.value as error:
            assert (error.code, error.headers["allow"]) == (405, "GET, HEAD")


def test_a_node_whose_store_is_away_at_the_start_goes_on_when_it_is_back() -> None:
    is_back = threading.Event()

    def open() -> Store:
        if not is_back.is_set():
            raise StoreUnavailable("nothing listens at db:5432.")
        return open_store("memory://")

    listener = listen_tcp("127.0.0.1", 0)
    with serving(open, listener, wait=False):
        assert get(listener.url, "/health")[0] == 200
        status, _, body = get(listener.url, "/ready")
        assert (status, body["status"]) == (503, "not ready")
        assert "db:5432" not in str(body)
        status, headers, body = get(listener.url, "/api/v1/operations/queues.push")
        assert (status, body["code"], body["retryable"]) == (503, "store_unavailable", True)
        assert "db:5432" not in str(body)
        assert headers["retry-after"] == "1"
        is_back.set()
        until(lambda: get(listener.url, "/ready")[0] == 200, "a ready node")
        assert get(listener.url, "/anything")[2] == {"hello": True}


def test_a_store_that_goes_away_later_makes_the_node_not_ready() -> None:
    store = open_store("memory://")
    is_away = threading.Event()
    run = store.run

    def fail(op: Any) -> Any:
        found = run(op)
        if is_away.is_set():
            raise StoreUnavailable("the server closed the connection.")
        return found

    store.run = fail  # type: ignore[method-assign]
    access = StoreAccess(lambda: store)
    access.store, access._problem = store, None
    access._probe()
    assert access.problem is None
    is_away.set()
    with pytest.raises(StoreUnavailable):
        access._probe()
    assert access.problem is not None
    assert "closed the connection" in access.problem
    is_away.clear()
    access._probe()
    assert access.problem is None


def test_a_store_that_is_silent_makes_the_node_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    access = StoreAccess(lambda: open_store("memory://"))
    access._problem = None
    access._asked_at = 0.0
    monkeypatch.setattr("headrace.node.store_access.monotonic", lambda: 2.0)
    assert access.problem is None
    monkeypatch.setattr("headrace.node.store_access.monotonic", lambda: 7.0)
    assert access.problem == "the store has not answered for 7 s"


def test_a_store_that_cannot_be_served_ends_the_node() -> None:
    def open() -> Store:
        raise SchemaTooNew("the tables are of a newer release.")

    listener = listen_tcp("127.0.0.1", 0)
    server = NodeServer(open, hello_app, [listener])
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        except SchemaTooNew as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    listener.close()
    assert [str(error) for error in failures] == ["the tables are of a newer release."]


def test_streams_end_when_the_node_stops() -> None:
    listener = listen_tcp("127.0.0.1", 0)
    with serving(lambda: open_store("memory://"), listener) as server:
        streams = [urllib.request.urlopen(f"{listener.url}/stream") for _ in range(50)]
        for stream in streams:
            assert stream.read(5) == b"first"
        server.stop()
        for stream in streams:
            assert stream.read() == b"last"
            stream.close()


def test_a_unix_socket_serves_the_same(tmp_path: Path) -> None:
    listener = listen_unix(tmp_path / "sockets" / "node.sock")
    with (
        serving(lambda: open_store("memory://"), listener),
        socket.socket(socket.AF_UNIX) as client,
    ):
        client.connect(str(listener.path))
        client.sendall(b"GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        with client.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
    assert not (tmp_path / "sockets" / "node.sock").exists()


def test_a_loop_that_does_not_succeed_fails_health_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.node.root_app import RootApp

    def fail() -> float:
        raise ValueError("broken")

    loop = SupervisedLoop("schedules", 10.0, fail)
    root = RootApp(StoreAccess(lambda: open_store("memory://")))
    root.loops = [loop]
    loop._failed(ValueError("broken"))
    started = loop._succeeded_at
    monkeypatch.setattr("headrace.node.supervised_loop.monotonic", lambda: started + 29)
    assert not loop.is_late
    monkeypatch.setattr("headrace.node.supervised_loop.monotonic", lambda: started + 31)
    assert loop.is_late
    # While the store is away, the node is well and not ready.
    loop._failed(StoreUnavailable("away"))
    assert not loop.is_late


def test_a_loop_goes_on_after_a_failure() -> None:
    calls: list[int] = []
    is_done = threading.Event()

    def step() -> float:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("broken")
        is_done.set()
        return 3600.0

    loop = SupervisedLoop("schedules", 3600.0, step, retry_seconds=0)
    loop.start()
    assert is_done.wait(PATIENCE)
    loop.end()
    loop.join(PATIENCE)
    assert loop.problem is None


def client_context(certificates: Path, name: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates / "node.pem")
    if name is not None:
        context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


def test_tls_with_client_certificates(certificates: Path) -> None:
    files = tls_files(
        str(certificates / "node.pem"),
        str(certificates / "node.key"),
        str(certificates / "client.pem"),
    )
    listener = listen_tcp("127.0.0.1", 0, is_tls=True)
    assert listener.url.startswith("https://")
    with serving(lambda: open_store("memory://"), listener, tls=files):
        context = client_context(certificates, "client")
        with urllib.request.urlopen(f"{listener.url}/ready", context=context) as response:
            assert response.status == 200
        for name in ("stranger", None):
            context = client_context(certificates, name)
            with pytest.raises(OSError):  # the node ends the connection, sooner or later
                urllib.request.urlopen(f"{listener.url}/ready", context=context, timeout=PATIENCE)


@pytest.fixture
def encrypted(certificates: Path) -> Iterator[ListeningSocket]:
    """A node with TLS."""
    files = tls_files(str(certificates / "node.pem"), str(certificates / "node.key"), None)
    listener = listen_tcp("127.0.0.1", 0, is_tls=True)
    with serving(lambda: open_store("memory://"), listener, tls=files):
        yield listener


@pytest.fixture
def few_connections(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    return 4


def silent_clients(listener: ListeningSocket, count: int) -> list[socket.socket]:
    """Clients that begin no handshake."""
    address = listener.socket.getsockname()
    return [socket.create_connection(address, PATIENCE) for _ in range(count)]


def closed(clients: list[socket.socket]) -> int:
    """How many connections the node has closed."""
    return len(select.select(clients, [], [], 0)[0])


def test_tls_handshakes_count_as_connections(
    few_connections: int, encrypted: ListeningSocket
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(one) for one in silent_clients(encrypted, 12)]
        until(lambda: closed(clients) == 12 - few_connections, "the others to be closed")


def test_a_tls_handshake_has_a_time_limit(
    few_connections: int,
    encrypted: ListeningSocket,
    certificates: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Clients that begin none, or send something else, are cut off, and others served again."""
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_SECONDS", 0.2)
    with ExitStack() as stack:
        clients = [stack.enter_context(one) for one in silent_clients(encrypted, few_connections)]
        clients[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: closed(clients) == few_connections, "the end of their time")
        context = client_context(certificates, None)
        with urllib.request.urlopen(f"{encrypted.url}/ready", context=context) as response:
            assert response.status == 200
    assert not caplog.records


def test_a_request_that_comes_with_the_end_of_the_handshake_is_read(
    encrypted: ListeningSocket, certificates: Path
) -> None:
    """Clients send it in the same packet, as TLS 1.3 allows."""
    context = client_context(certificates, None)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    [connection] = silent_clients(encrypted, 1)
    with connection:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        client.write(b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        connection.sendall(outgoing.read())  # the end of the handshake and the request
        answer = b""
        while b"ready" not in answer:
            try:
                answer += client.read()
            except ssl.SSLWantReadError:
                incoming.write(connection.recv(65536))
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_node_that_stops_does_not_wait_for_handshakes(certificates: Path) -> None:
    files = tls_files(str(certificates / "node.pem"), str(certificates / "node.key"), None)
    listener = listen_tcp("127.0.0.1", 0, is_tls=True)
    with ExitStack() as stack:
        with serving(lambda: open_store("memory://"), listener, tls=files) as server:
            clients = [stack.enter_context(one) for one in silent_clients(listener, 2)]
            started = time.monotonic()
            server.stop()
        assert time.monotonic() - started < tls_acceptor.HANDSHAKE_SECONDS / 2
        until(lambda: closed(clients) == 2, "their end")


def test_missing_tls_files_are_named(certificates: Path) -> None:
    cert, key = str(certificates / "node.pem"), str(certificates / "node.key")
    assert tls_files(None, None, None) is None
    with pytest.raises(InvalidOption, match="give --tls-key"):
        tls_files(cert, None, None)
    with pytest.raises(InvalidOption, match="give --tls-cert"):
        tls_files(None, key, None)
    with pytest.raises(InvalidOption, match=r"TLS certificate /nowhere\.pem cannot be read"):
        tls_files("/nowhere.pem", key, None)
    with pytest.raises(InvalidOption, match=r"TLS key /nowhere\.key cannot be read"):
        tls_files(cert, "/nowhere.key", None)
    with pytest.raises(InvalidOption, match=r"TLS client CA /nowhere\.ca cannot be read"):
        tls_files(cert, key, "/nowhere.ca")
    with pytest.raises(InvalidOption, match="must be that of the certificate"):
        tls_files(cert, str(certificates / "client.key"), None)
    with pytest.raises(InvalidOption, match=r"client CA .* cannot be used"):
        tls_files(cert, key, key)


PROGRAM = """
import asyncio, sys
from headrace.node.server import NodeServer
from headrace.node.sockets import listen_tcp
from headrace.stores import open_store

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    if scope["path"] == "/deaf":
        await asyncio.sleep(3600)
    await send({"type": "http.response.body", "body": b"last"})

listener = listen_tcp("127.0.0.1", 0)
server = NodeServer(
    lambda: open_store("memory://"), lambda *_: app, [listener],
    on_ready=lambda: print(listener.url, flush=True),
)
server.run()
"""


@contextmanager
def node_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process(number: signal.Signals) -> None:
    with node_process() as (process, url):
        assert get_text(url, "/") == b"firstlast"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0


def test_a_second_signal_ends_it_immediately() -> None:
    with node_process() as (process, url):
        stream = urllib.request.urlopen(f"{url}/deaf", timeout=PATIENCE)
        assert stream.read(5) == b"first"
        process.send_signal(signal.SIGTERM)
        # The node has seen the first signal when it no longer listens.
        until(lambda: not is_listening(url), "the end of the listener")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        stream.close()


def get_text(url: str, path: str) -> bytes:
    with urllib.request.urlopen(url + path, timeout=PATIENCE) as response:
        text: bytes = response.read()
        return text


def is_listening(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError:
        return False
    return True
