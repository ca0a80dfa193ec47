"""The driver over HTTP: what only it has. The contract runs in ``tests/contract/test_http.py``."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import pytest

import headrace
from headrace import local_nodes
from headrace.drivers import notifier
from headrace.drivers.http import connections
from headrace.drivers.http.messages import AnswerReader, BadAnswer
from headrace.errors import (
    HeadraceError,
    InvalidOption,
    InvalidUrl,
    NotConnected,
    StoreError,
    UnsupportedStore,
)
from headrace.node import operations
from headrace.node.guard import OpenGuard, RequestIdentity
from headrace.node.http import HttpError, HttpRequest
from served_node import ServedNode


@pytest.fixture
def url(served: ServedNode, sqlite_url: str) -> Iterator[str]:
    with served.serving(sqlite_url):
        yield served.tcp_url


@pytest.fixture
def hr(url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(url) as hr:
        yield hr


class TestRefusals:
    """What does not fit is refused, with the way out."""

    def test_transactions(self, hr: headrace.Headrace, url: str) -> None:
        assert not hr.capabilities.supports_transactions
        with pytest.raises(UnsupportedStore, match="commit"), hr.transaction():
            pass

        async def use() -> None:
            async with headrace.aconnect(url) as hr, hr.transaction():
                pass

        with pytest.raises(UnsupportedStore, match="commit"):
            asyncio.run(use())

    def test_transactions_of_the_user(self, hr: headrace.Headrace) -> None:
        with pytest.raises(InvalidOption, match="database itself"):
            hr.using(object())

    def test_a_clock_and_a_durability_belong_to_the_node(self, url: str) -> None:
        for options in ({"clock": lambda: 0}, {"durability": "relaxed"}):
            with pytest.raises(InvalidOption, match="to the node"):
                headrace.connect(url, **options)
        with pytest.raises(InvalidOption, match="to the node"):
            headrace.connect(f"{url}?durability=safe")

    @pytest.mark.parametrize(
        "wrong",
        [
            "http://",
            "http://:token@",
            "http://host:port",
            "http://host:70000",
            "http://host/?colour=red",
            "unix://node.sock",
            "unix:///",
            "http://:to%0d%0aken@127.0.0.1:1",
            "http://:t\u00f6ken@127.0.0.1:1",
            "http://m\u00fcller:1",
            "http://127.0.0.1:1/a b",
            "unix:///node.sock?token=a%0ab",
        ],
    )
    def test_wrong_urls(self, wrong: str) -> None:
        with pytest.raises(InvalidUrl):
            headrace.connect(wrong)

    def test_wrong_options(self) -> None:
        for option in ("format=xml",):
            with pytest.raises(InvalidOption):
                headrace.connect(f"http://127.0.0.1:1?{option}")
        for option in ("ca=/nowhere", "cert=/nowhere", f"key={__file__}", f"ca={__file__}"):
            with pytest.raises(InvalidOption):
                headrace.connect(f"https://127.0.0.1:1?{option}")


class TestConnecting:
    def test_no_node_is_an_error_without_delay(self, tmp_path: Any) -> None:
        for url in ("http://127.0.0.1:1", f"unix://{tmp_path}/node.sock"):
            with pytest.raises(NotConnected, match="headrace up"):
                headrace.connect(url, patience=600)

    def test_something_else_that_answers_is_no_node(self) -> None:
        for answer, words in (
            (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno", "no Headrace node"),
            (b"HTTP/1.0 200 OK\r\n\r\n<html>", "no Headrace node"),
            (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not speak HTTP"),
            (b"\x15\x03\x01\0\x02\x02\x46", "use https"),
        ):
            # An answer that will not change ends patience immediately.
            with Fake(answer) as fake, pytest.raises(StoreError, match=words):
                headrace.connect(fake.url, patience=600)
        with Fake(b"") as fake, pytest.raises(StoreError, match="closed"):
            headrace.connect(fake.url, patience=0.1)

    def test_a_node_of_another_release_says_so(
        self, hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "table_digest", lambda: "other")
        monkeypatch.setattr(operations.headrace, "__version__", "99.0")
        monkeypatch.setattr(operations, "OPERATIONS", {})
        with pytest.raises(UnsupportedStore, match=r"99\.0.*same release") as caught:
            hr.topics.list()
        assert caught.value.node == "99.0"
        assert caught.value.client

    def test_a_code_that_this_release_does_not_know(self, served: ServedNode, url: str) -> None:
        with headrace.connect(url) as hr:
            served.app = answering(served, HttpError(507, "disk_full", "the disk is full."))
            with pytest.raises(StoreError, match="the disk is full"):
                hr.topics.list()
            served.app = answering(served, HttpError(418, "teapot", "I am a teapot."))
            with pytest.raises(HeadraceError, match="teapot") as caught:
                hr.topics.list()
            assert not isinstance(caught.value, StoreError)

    def test_what_a_node_can_do_is_known_at_once(self, hr: headrace.Headrace) -> None:
        capabilities = hr.capabilities
        assert capabilities.survives_restart
        assert capabilities.is_shared
        assert capabilities.has_server
        assert "locks" in capabilities.parts


class TokenGuard(OpenGuard):
    def __init__(self, token: str) -> None:
        self.token = token

    async def authenticate(self, request: HttpRequest) -> RequestIdentity:
        if request.header(b"authorization") != f"Bearer {self.token}":
            raise HttpError(401, "unauthorized", "a token is needed.")
        return await super().authenticate(request)


class TestTokens:
    def test_a_token_of_the_url_is_sent(self, served: ServedNode, sqlite_url: str) -> None:
        with served.serving(sqlite_url, guard=TokenGuard("s3cret/")):
            for url in (
                f"http://:s3cret%2F@127.0.0.1:{served.port}",
                f"http://s3cret%2F@127.0.0.1:{served.port}",
                f"{served.tcp_url}?token=s3cret/",
                f"{served.unix_url}?token=s3cret/",
            ):
                with headrace.connect(url) as hr:
                    assert hr.topics.list() == []
            with pytest.raises(HeadraceError, match="token is needed"):
                headrace.connect(served.tcp_url)

    def test_local_clients_find_the_token_of_a_node(
        self, served: ServedNode, sqlite_url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also that of the node's next incarnation."""
        monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(tmp_path / "run"))
        lock = local_nodes.lock_namespace("default")
        guard = TokenGuard("first")
        with served.serving(sqlite_url, guard=guard):
            write_token(served, "first")
            with headrace.connect(served.tcp_url) as hr:
                hr.push("mail", 1)
                guard.token = "second"
                with pytest.raises(HeadraceError, match="token is needed"):
                    hr.push("mail", 2)
                write_token(served, "second")
                hr.push("mail", 3)
                guard.token = "third"
                write_token(served, "third")
                assert hr.queue("mail").stats().pending == 2
        lock.release()


def write_token(served: ServedNode, token: str) -> None:
    record = local_nodes.NodeRecord(
        url=served.tcp_url, pid=os.getpid(), incarnation="one", token=token
    )
    local_nodes.write("default", record)


class TestConnections:
    def test_requests_of_a_client_share_a_connection(
        self, hr: headrace.Headrace, opened: list[object]
    ) -> None:
        hr.push("mail", 1)
        before = len(opened)
        for n in range(10):
            hr.push("mail", n)
        assert len(opened) == before

    @pytest.fixture
    def opened(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        made: list[object] = []
        connect = connections.HttpConnections._connect

        def count(self: Any, deadline: float) -> Any:
            made.append(deadline)
            return connect(self, deadline)

        monkeypatch.setattr(connections.HttpConnections, "_connect", count)
        return made

    def test_a_connection_that_was_idle_for_long_is_not_used(
        self, hr: headrace.Headrace, opened: list[object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hr.push("mail", 1)
        monkeypatch.setattr(connections, "IDLE_SECONDS", -1.0)
        before = len(opened)
        hr.push("mail", 1)
        assert len(opened) == before + 1

    def test_threads(self, hr: headrace.Headrace) -> None:
        def push(n: int) -> int:
            return hr.push("mail", n).ids[0]

        with ThreadPoolExecutor(8) as threads:
            ids = list(threads.map(push, range(200)))
        assert sorted(ids) == list(range(1, 201))

    def test_a_child_has_connections_of_its_own(self, hr: headrace.Headrace) -> None:
        hr.push("mail", "parent")
        child = os.fork()
        if child == 0:
            try:
                for n in range(20):
                    hr.push("mail", f"child {n}")
                os._exit(0)
            finally:
                os._exit(1)
        for n in range(20):
            hr.push("mail", f"parent {n}")
        assert os.waitpid(child, 0)[1] == 0
        assert hr.queue("mail").stats().pending == 41

    def test_many_tasks_share_few_connections(self, url: str) -> None:
        async def use() -> None:
            async with headrace.aconnect(url) as hr:
                await asyncio.gather(*(hr.topics.list() for _ in range(500)))
                [mine] = hr._store._async_connections._loops.values()
                assert 0 < len(mine._idle) <= connections.MAX_TASK_CONNECTIONS

        asyncio.run(use())

    def test_a_cancelled_read_does_not_answer_the_next(self, served: ServedNode, url: str) -> None:
        async def use() -> None:
            async with headrace.aconnect(url) as hr:
                await hr.push("mail", 1)
                for _ in range(20):
                    reading = asyncio.ensure_future(hr.queues.list())
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    reading.cancel()
                    assert (await hr.queue("mail").stats()).pending == 1
                    await asyncio.gather(reading, return_exceptions=True)

        asyncio.run(use())

    def test_a_cancelled_write_awaits_its_outcome(
        self, served: ServedNode, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent = asyncio.Event()
        read = connections._Connection._read

        async def note(self: Any, *args: Any) -> Any:
            sent.set()
            return await read(self, *args)

        async def use() -> None:
            monkeypatch.setattr(connections._Connection, "_read", note)
            async with headrace.aconnect(url) as hr:
                await hr.push("mail", 0)
                sent.clear()
                with served.frozen():
                    pushing = asyncio.ensure_future(hr.push("mail", 1))
                    await sent.wait()
                    pushing.cancel()
                    await asyncio.sleep(0.05)
                    assert not pushing.done()
                with pytest.raises(asyncio.CancelledError):
                    await pushing
                assert (await hr.queue("mail").stats()).pending == 2
                [mine] = hr._store._async_connections._loops.values()
                assert len(mine._idle) == 1

        asyncio.run(use())

    def test_notifications_come_back_with_the_node(
        self, served: ServedNode, hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(notifier, "RETRY", 0.0)
        waiter = hr._store.waiter("queue/mail")
        try:
            first = waiter._source
            assert first is not None
            served.restart()
            until(lambda: not waiter.wait(0.1) and waiter._source not in (None, first))
            hr.push("mail", 1)
            until(lambda: waiter.wait(1.0))
        finally:
            waiter.close()


def until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < give_up


class TestAnswers:
    def test_what_comes_unasked_spoils_a_connection(self) -> None:
        async def receive() -> None:
            stream = connections._AnswerStream()
            stream.is_awaited = True
            stream.feed_data(b"an answer")
            assert stream.is_usable
            stream.is_awaited = False
            stream.feed_data(b"news of a proxy")
            assert not stream.is_usable

        asyncio.run(receive())

    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    def test_an_answer_in_pieces(self, size: int) -> None:
        body = b"x" * 300
        for head, encoded in (
            (b"content-length: 300\r\n", body),
            (b"Transfer-Encoding: chunked\r\n", b"12c\r\n" + body + b"\r\n0\r\n\r\n"),
        ):
            text = b"HTTP/1.1 200 OK\r\nheadrace-incarnation: a\r\n" + head + b"\r\n" + encoded
            reader = AnswerReader()
            answers = [reader.feed(text[at : at + size]) for at in range(0, len(text), size)]
            assert answers[:-1] == [None] * (len(answers) - 1)
            assert answers[-1] is not None
            assert (answers[-1].status, answers[-1].body) == (200, body)
            assert answers[-1].incarnation == "a"
            # What may follow the last chunk is not read.
            assert answers[-1].can_stay == (b"content-length" in head)

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 abc\r\ncontent-length: 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-6\r\n",
            b"x" * 100_000,
        ],
    )
    def test_what_is_no_answer(self, text: bytes) -> None:
        with pytest.raises(BadAnswer):
            AnswerReader().feed(text)


class Fake:
    """A server that answers every connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(self._answer)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)


def answering(served: ServedNode, error: HttpError) -> Callable[..., Any]:
    """An application that refuses everything."""

    async def authenticate(request: HttpRequest) -> RequestIdentity:
        raise error

    served._node.guard = type(
        "Refusing", (OpenGuard,), {"authenticate": staticmethod(authenticate)}
    )()
    return served._node
