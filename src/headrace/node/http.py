"""Requests and responses over bare ASGI.

Only what a node needs, because every request pays for it: headers as a dict of bytes, path segments
that are decoded one by one (so that a name may contain ``/``), bodies with a limit in bytes and in
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import chain
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qsl, unquote

import msgspec

from headrace.contract.wire import JSON, PROBLEM_TYPE, Problem
from headrace.errors import BodyTooLarge, InvalidInput

if TYPE_CHECKING:
    from headrace.node.guard import RequestIdentity

T = TypeVar("T")
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

Headers = Sequence[tuple[bytes, bytes]]

ABORT = "headrace.abort"
"""What our connections add to ASGI: the function that cuts the connection of a request off."""
MAX_BODY_BYTES = 8 * 1024 * 1024
BODY_SECONDS = 30.0
BODY_GAP_SECONDS = 10.0

FINISH_SECONDS = 1.0
"""How long a client may take to read the end of a stream that ends."""

_encode = msgspec.json.Encoder().encode


class HttpRequest:
    """One HTTP request; ``parameters`` are the segments that its route names."""

    __slots__ = (
        "_receive",
        "_scope",
        "headers",
        "identity",
        "label",
        "method",
        "parameters",
        "path",
    )

    identity: RequestIdentity

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        raw: bytes = scope["raw_path"]
        self.path = raw.decode("ascii", "replace")
        # Of headers with the same name the last one counts.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.parameters: Mapping[str, str] = {}
        # What the request counts as in metrics; its route, unless a handler is more precise.
        self.label = ""

    @property
    def segments(self) -> list[str]:
        """The path's segments, each decoded on its own."""
        if "%" not in self.path:
            return self.path[1:].split("/")
        try:
            found = [unquote(segment, errors="strict") for segment in self.path[1:].split("/")]
        except UnicodeError:
            raise InvalidInput("the path is not UTF-8: quote it as such with %.") from None
        if "%00" in self.path:
            # Nothing has such a name, and databases cannot even look for it.
            raise InvalidInput("the path has a character U+0000: leave it out.")
        return found

    @property
    def client(self) -> str:
        """The address of the sender; empty on a Unix socket."""
        address = self._scope.get("client")
        return address[0] if address else ""

    @property
    def is_private(self) -> bool:
        """Whether it came through a Unix socket, whose mode says which users may connect.

        That the sender has no address would prove nothing: a TCP connection that was reset has
        none either. The server's own address of a Unix socket is a path, without a port.
        """
        server = self._scope.get("server")
        return server is not None and server[1] is None

    @property
    def header_bytes(self) -> int:
        """How long the headers are together."""
        headers = self._scope["headers"]
        return sum(map(len, chain.from_iterable(headers))) + 4 * len(headers)

    @property
    def has_query(self) -> bool:
        """Whether there are options behind ``?``."""
        return bool(self._scope["query_string"])

    @property
    def query(self) -> dict[str, str]:
        """The options behind ``?``. One that is there twice is refused."""
        raw: bytes = self._scope["query_string"]
        pairs = parse_qsl(raw.decode("ascii", "replace"), keep_blank_values=True)
        found = dict(pairs)
        if len(found) < len(pairs):
            name = next(name for name in found if [pair[0] for pair in pairs].count(name) > 1)
            raise InvalidInput(
                f"the option {name!r} is there twice: give it once.", path=f"?{name}"
            )
        return found

    def header(self, name: bytes) -> str | None:
        """A header's value; ``name`` is in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def max_body_bytes(self) -> int:
        """How long the body is, or may be if its sender does not say it before."""
        # The server has checked that it is a number.
        length = self.headers.get(b"content-length")
        if length is None:
            return MAX_BODY_BYTES if b"transfer-encoding" in self.headers else 0
        return int(length)

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Refused if it is too long, or comes too slowly."""
        self._check_length(limit)
        receiving = self._receive().__await__()
        try:
            waits_for = next(receiving)
        except StopIteration as received:
            # The body came with the headers, as most do. A time limit would cost more than that.
            message = received.value
        else:
            try:
                async with asyncio.timeout(BODY_GAP_SECONDS):
                    message = await resume(receiving, waits_for)
            except TimeoutError:
                raise _too_slow() from None
        if message.get("more_body"):
            try:
                return await self._rest(message, limit)
            except TimeoutError:
                raise _too_slow() from None
        return self._part(message)

    def _check_length(self, limit: int) -> None:
        length = self.headers.get(b"content-length", b"0")
        # The server has checked that it is a number.
        if int(length) > limit:
            raise _too_long(limit)

    def _part(self, message: Mapping[str, Any]) -> bytes:
        if message["type"] != "http.request":
            raise Disconnected
        body: bytes = message.get("body", b"")
        return body

    async def _rest(self, message: Mapping[str, Any], limit: int) -> bytes:
        chunks = []
        size = 0
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                chunks.append(self._part(message))
                size += len(chunks[-1])
                if size > limit:
                    raise _too_long(limit)
                if not message.get("more_body"):
                    return b"".join(chunks)
                async with asyncio.timeout(BODY_GAP_SECONDS):
                    message = await self._receive()

    async def disconnected(self) -> None:
        """Wait until the client has gone. The body has been read, or is never needed."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def abort(self) -> None:
        """Cut the connection off, with all that its client has not read yet."""
        abort = self._scope.get("extensions", {}).get(ABORT)
        if abort is not None:
            abort()


@coroutine
def resume(
    awaiting: Generator[Any, Any, T] | Coroutine[Any, Any, T], waits_for: Any
) -> Generator[Any, Any, T]:
    """Go on to await something whose first step was taken, and which waits since then."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:
            step = partial(awaiting.throw, error)
        else:
            step = partial(awaiting.send, sent)
        try:
            waits_for = step()
        except StopIteration as end:
            return cast("T", end.value)


def problem_type(code: str) -> str:
    """The URI that a problem document names the kind of problem by."""
    return PROBLEM_TYPE + code


class HttpError(Exception):
    """A refusal that concerns HTTP itself, and is no error of Headrace's: a path without a route."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        retryable: bool = False,
        headers: Headers = (),
        **details: Any,
    ) -> None:
        super().__init__(detail)
        self.headers = headers
        self.problem = Problem(
            type=problem_type(code),
            title=code.replace("_", " ").capitalize(),
            status=status,
            detail=detail,
            code=code,
            retryable=retryable,
            details=details,
        )


class Disconnected(Exception):
    """The client left before its request was complete."""


def _too_long(limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"the request's body is longer than {limit} bytes: send less in one request.",
        limit=limit,
    )


def _too_slow() -> HttpError:
    return HttpError(
        408,
        "request_timeout",
        f"the request's body came too slowly: send it within {BODY_SECONDS:.0f} s, and without "
        f"pauses of {BODY_GAP_SECONDS:.0f} s.",
    )


class Response:
    """What a handler returns: a status, a body and headers."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        content_type: str = JSON,
        headers: Headers = (),
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers

    @classmethod
    def json(cls, value: Any, *, status: int = 200, headers: Headers = ()) -> Response:
        """A value as JSON."""
        return cls(_encode(value), status=status, headers=headers)


class ResponseStream:
    """A response without an end of its own: it ends with the client, or with the node."""

    __slots__ = ("chunks", "content_type")

    def __init__(self, chunks: AsyncIterator[bytes], *, content_type: str) -> None:
        self.chunks = chunks
        self.content_type = content_type


async def finish(request: HttpRequest, send: Send, body: bytes = b"") -> None:
    """Send the end of a stream. A client that does not read it is cut off: a node may stop."""
    try:
        async with asyncio.timeout(FINISH_SECONDS):
            await send({"type": "http.response.body", "body": body})
    except TimeoutError:
        request.abort()
