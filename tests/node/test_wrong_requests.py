"""Requests that no client of ours sends: each gets a problem document, and harms nobody."""

import asyncio
import json
import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self

import pytest
from msgspec import inspect as types

import headrace
from headrace.contract.items import PushCall
from headrace.contract.operations import OPERATIONS, Operation
from headrace.contract.wire import PROBLEM, PROBLEM_TYPE
from headrace.errors import BodyTooLarge, InvalidInput
from headrace.model.queues.items import Document
from headrace.node import http
from headrace.testing import sync_facade
from headrace.testing.sync_facade import ClientMode
from operation_samples import sample
from served_node import ServedNode
from wrong_values import spoiled

PATIENCE = 60.0


@pytest.fixture
def url(served: ServedNode, memory_url: str) -> Iterator[str]:
    with served.serving(memory_url):
        yield served.tcp_url


def wrong_arguments(operation: Operation) -> Iterator[Any]:
    """Documents that differ from good arguments in one place, or altogether."""
    yield from (None, 1, "a", [], [1])
    for is_full in (False, True):
        good = sample(types.type_info(operation.arguments), is_full=is_full)
        yield good
        yield good | {"unknown": 1}
        yield from spoiled(good)


class Caller:
    """Sends requests over one connection."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def post(
        self, operation: str, body: bytes, kind: str = "application/json"
    ) -> tuple[int, str, bytes]:
        self.send(
            f"POST /api/v1/operations/{operation} HTTP/1.1\r\nhost: localhost\r\n"
            f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        return self.read()

    def read(self) -> tuple[int, str, bytes]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip().decode()
        body = self._file.read(int(headers[b"content-length"]))
        return status, headers[b"content-type"], body

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.mark.parametrize(
    "store", ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("part", sorted({operation.part for operation in OPERATIONS.values()}))
def test_wrong_arguments_of_every_operation(
    request: pytest.FixtureRequest, served: ServedNode, store: str, part: str
) -> None:
    """Whatever is sent, the node answers with a result or says in a problem document why not. It
    never meets an error that it did not expect."""
    with served.serving(request.getfixturevalue(f"{store}_url")), Caller(served.tcp_url) as caller:
        for operation in OPERATIONS.values():
            if operation.part != part:
                continue
            for arguments in wrong_arguments(operation):
                body = json.dumps(arguments).encode()
                status, kind, answer = caller.post(operation.name, body)
                shown = f"{operation.name} {body!r}: {status} {answer!r}"
                assert status == 200 or 400 <= status < 500, shown
                if status != 200:
                    assert kind == PROBLEM, shown
                    assert json.loads(answer)["type"].startswith(PROBLEM_TYPE), shown


def test_a_wrong_push_does_not_fail_those_that_share_its_transaction(
    served: ServedNode, postgres_url: str
) -> None:
    document = Document(payload='"wrong"')
    wrong = PushCall(queue="q", documents=(document,), key="a\0", digest="d")

    async def push_all(url: str) -> list[object]:
        async with headrace.aconnect(url) as good, headrace.aconnect(url) as bad:
            await good.queues.create("q")
            attacks = [bad._store.arun(bad._store.queues.push([wrong])) for _ in range(10)]
            pushes = [good.queue("q").push(number) for number in range(40)]
            refusals, _ = await asyncio.gather(
                asyncio.gather(*attacks, return_exceptions=True), asyncio.gather(*pushes)
            )
            assert (await good.queue("q").stats()).pending == 40
            return refusals

    with served.serving(postgres_url):
        refusals = asyncio.run(push_all(served.tcp_url))
    assert [type(error) for error in refusals] == [InvalidInput] * 10


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_push_that_is_too_large_says_so(url: str, mode: ClientMode) -> None:
    """The node does not read all of it; the client learns why, and goes on."""
    client = sync_facade.connect(mode, url, max_body=2**24)
    with pytest.raises(BodyTooLarge, match="send less in one request"):
        client.queue("q").push("x" * 9 * 2**20)
    client.queue("q").push("small")
    assert client.queue("q").stats().pending == 1
    sync_facade.shut(client)


DEEP = 100_000


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"[" * DEEP + b"]" * DEEP, 400),
        ("application/json", b'{"a":' * DEEP + b"1" + b"}" * DEEP, 400),
        ("application/msgpack", b"\x91" * DEEP + b"\xc0", 400),
        ("application/msgpack", b"", 400),
        ("application/msgpack", b"\xdf\xff\xff\xff\xff", 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/json", b'{"calls": []} and more', 400),
        ("text/plain", b"{}", 415),
        ("application/x-www-form-urlencoded", b"calls=1", 415),
        ("", b"{}", 415),
    ],
)
def test_bodies_that_are_no_arguments(url: str, kind: str, body: bytes, status: int) -> None:
    with Caller(url) as caller:
        for _ in range(2):
            found, content_type, answer = caller.post("queues.push", body, kind)
            assert (found, content_type) == (status, PROBLEM), answer
            assert json.loads(answer)["detail"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /api/v1/operations/topics.list HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /%ff%fe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://elsewhere/api/v1/node/x HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request(url: str, garbage: bytes) -> None:
    """It is refused, and harms no other connection. Behind a good request, the server may refuse
    both: no client of ours sends a request before the answer to the last one."""
    good = b"GET /api/v1/node HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for before in (b"", good):
        with Caller(url) as caller:
            caller.send(before + garbage)
            status, _, _ = caller.read()
            assert 400 <= status < 500 or (before and status == 200)
    with headrace.connect(url) as hr:
        assert hr.topics.list() == []


def test_idle_connections_keep_nobody_from_work(url: str) -> None:
    """Neither silent ones nor those in the middle of a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    callers = []
    try:
        for number in range(1000):
            caller = Caller(url)
            callers.append(caller)
            if number % 2:
                caller.send(b"POST /api/v1/operations/queues.push HTTP/1.1\r\nhost: loc")
        with headrace.connect(url) as hr:
            for number in range(20):
                hr.queue("q").push(number)
            assert len(hr.queue("q").claim(20)) == 20
    finally:
        for caller in callers:
            caller.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_body_that_trickles_in_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause is too long, but all of it takes too long. The node answers other clients."""
    monkeypatch.setattr(http, "BODY_SECONDS", 0.5)
    head = (
        "POST /api/v1/operations/queues.info HTTP/1.1\r\nhost: localhost\r\n"
        "content-type: application/json\r\ncontent-length: 1000000\r\n\r\n{"
    )
    is_refused = threading.Event()
    with Caller(url) as slow, Caller(url) as other, ThreadPoolExecutor(1) as pool:
        slow.send(head.encode())

        def trickle() -> None:
            # The node may close the connection after its answer.
            with suppress(ConnectionError):
                while not is_refused.wait(0.02):
                    slow.send(b" ")

        sending = pool.submit(trickle)
        try:
            assert other.post("queues.list", b'{"prefix": "", "after": "", "limit": 1}')[0] == 200
            status, kind, answer = slow.read()
        finally:
            is_refused.set()
        sending.result(PATIENCE)
    assert (status, kind) == (408, PROBLEM)
    assert json.loads(answer)["code"] == "request_timeout"
