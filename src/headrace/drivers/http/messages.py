"""HTTP/1.1 as bytes: what is sent to a node, and what it answers. No I/O."""

from __future__ import annotations

import secrets
import time
from importlib.metadata import version

import msgspec

from headrace.contract.operations import Operation, table_digest
from headrace.contract.wire import (
    INCARNATION,
    OPERATIONS_PATH,
    PATIENCE,
    REPEAT,
    REQUEST_ID,
    TABLE,
    codec,
)
from headrace.drivers.http.address import Address

MAX_HEAD_BYTES = 64 * 1024
_HTTP = b"HTTP/1."


class BadAnswer(Exception):
    """What came back is no response of HTTP/1.1, or not complete."""


class NotHttp(BadAnswer):
    """What came back was not sent by a node, nor by a proxy before one."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """An operation with its arguments: the one step of an ``Op`` of this driver."""

    operation: Operation
    arguments: msgspec.Struct
    is_repeatable: bool


class Answer(msgspec.Struct, frozen=True):
    """A response. ``can_stay`` says whether its connection may be used again."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    can_stay: bool

    @property
    def incarnation(self) -> str | None:
        """The node's incarnation; None if something else answered."""
        value = self.headers.get(INCARNATION.encode())
        return None if value is None else value.decode("latin-1")

    @property
    def request_id(self) -> str | None:
        """The id of the write that this is the answer to; None if it was not even considered."""
        value = self.headers.get(REQUEST_ID.encode())
        return None if value is None else value.decode("latin-1")


class Letterhead:
    """The parts of a request that are the same for all requests to a node."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.format = address.format
        self._codec = codec(address.format)
        self._prefix = address.prefix
        login = f"authorization: Bearer {token}\r\n" if token else ""
        self._common = (
            f" HTTP/1.1\r\nhost: {address.authority}\r\n{login}"
            f"{TABLE}: {table_digest()}/{version('headrace')}\r\n"
        )
        self._operations = f"POST {self._prefix}{OPERATIONS_PATH}"
        self._content = f"{self._common}content-type: {self.format}\r\n"

    def get(self, path: str) -> bytes:
        """A GET request."""
        return f"GET {self._prefix}{path}{self._common}\r\n".encode("latin-1")

    def encode(self, call: Call) -> bytes:
        """The body of a call."""
        return self._codec.encode(call.arguments)

    def decode(self, call: Call, answer: Answer) -> object:
        """The result of a call."""
        return self._codec.results[call.operation.name](answer.body)

    def post(
        self,
        call: Call,
        body: bytes,
        *,
        id: str,
        incarnation: str,
        give_up: float,
        since: float | None = None,
    ) -> bytes:
        """The request of a call; ``since`` is when it was sent first, if this is a repeat."""
        now = time.monotonic()
        repeat = "" if since is None else f"{REPEAT}: {now - since:.3f}\r\n"
        head = (
            f"{self._operations}{call.operation.name}{self._content}"
            f"{REQUEST_ID}: {id}\r\n{INCARNATION}: {incarnation}\r\n"
            f"{PATIENCE}: {max(0.0, give_up - now):.3f}\r\n{repeat}"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body


def new_id() -> str:
    """The id of a request: 128 random bits."""
    return secrets.token_hex(16)


class AnswerReader:
    """Reads one response from pieces."""

    __slots__ = ("_answer", "_at", "_buffer", "_chunks", "_length")

    def __init__(self) -> None:
        self._buffer: bytes | bytearray = b""
        self._answer: Answer | None = None
        # Where the body begins, or its next chunk.
        self._at = 0
        # None while the body comes in chunks.
        self._length: int | None = None
        self._chunks: list[bytes] = []

    def feed(self, data: bytes) -> Answer | None:
        """One more piece; returns the response when it is complete. Raises ``BadAnswer``."""
        if not data:
            raise BadAnswer("the connection was closed before the answer was complete")
        if not self._buffer:
            # Most answers come in one piece.
            self._buffer = data
        else:
            if isinstance(self._buffer, bytes):
                self._buffer = bytearray(self._buffer)
            self._buffer += data
        if self._answer is None and not self._read_head():
            return None
        assert self._answer is not None
        if self._length is None:
            return self._read_chunks()
        end = self._at + self._length
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:
            raise BadAnswer("more came than was asked for")
        return msgspec.structs.replace(self._answer, body=bytes(self._buffer[self._at : end]))

    def _read_head(self) -> bool:
        if not self._buffer.startswith(_HTTP[: len(self._buffer)]):
            raise NotHttp("what answers does not speak HTTP/1.1")
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise NotHttp("the head of the answer is too long")
            return False
        self._at = end + 4
        status, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        is_chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
        try:
            code = int(status[9:12])
            self._length = None if is_chunked else int(headers[b"content-length"])
        except (ValueError, KeyError):
            raise NotHttp("what answers does not speak HTTP/1.1 as a node does") from None
        # Nodes send no chunks, a proxy before one may. What comes after the last one is not read.
        can_stay = not is_chunked and b"close" not in headers.get(b"connection", b"").lower()
        self._answer = Answer(code, headers, b"", can_stay)
        return True

    def _read_chunks(self) -> Answer | None:
        """The answer if all chunks are there."""
        while True:
            end = self._buffer.find(b"\r\n", self._at)
            if end < 0:
                return None
            size = _chunk_size(bytes(self._buffer[self._at : end]))
            begin, end = end + 2, end + 2 + size
            if len(self._buffer) < end + 2:
                return None
            if size == 0:
                assert self._answer is not None
                return msgspec.structs.replace(self._answer, body=b"".join(self._chunks))
            self._chunks.append(bytes(self._buffer[begin:end]))
            self._at = end + 2


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits.isalnum():
        raise BadAnswer("the length of a chunk is no number")
    try:
        return int(digits, 16)
    except ValueError:
        raise BadAnswer("the length of a chunk is no number") from None
