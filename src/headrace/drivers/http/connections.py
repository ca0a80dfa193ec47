"""HTTP connections to a node, for threads and for tasks. Each carries one request at a time.

A connection goes back to the idle ones only after a complete answer. After an error, a signal or a
cancellation it is closed: what comes later must not become the answer of another request.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from headrace.contract.shield import finish
from headrace.drivers.event_loops import forget_closed
from headrace.drivers.http.address import Address
from headrace.drivers.http.messages import Answer, AnswerReader, BadAnswer
from headrace.model import forks

IDLE_SECONDS = 60.0
"""How long an idle connection is used again. Nodes close them after 75 s."""
MAX_TASK_CONNECTIONS = 32
"""How many requests of one event loop are under way together. Others wait for one of them."""
READ_BYTES = 256 * 1024


class NotSent(Exception):
    """The request did not reach the node as a whole, so it has no effect."""


class NotThere(NotSent):
    """Nothing listens at the node's address."""


class AnswerLost(Exception):
    """The request was sent, and its answer did not come: it may have taken effect."""


def _not_connected(error: OSError | UnicodeError) -> NoReturn:
    if isinstance(error, ConnectionRefusedError | FileNotFoundError):
        raise NotThere(str(error)) from error
    raise NotSent(str(error) or type(error).__name__) from error


class HttpConnections:
    """HTTP connections of blocking callers."""

    def __init__(self, address: Address) -> None:
        self._address = address
        # Threads may share a list without a lock.
        self._idle: list[tuple[socket.socket, float]] = []
        # In a child this ends nothing but the child's own copies of the sockets.
        forks.renew_in_child(self, HttpConnections.close)

    def exchange(self, request: bytes, deadline: float) -> Answer:
        """Send a request and wait for its answer until ``deadline``."""
        connection = self._reuse() or self._connect(deadline)
        try:
            answer = _exchange(connection, request, deadline)
        except BaseException:
            connection.close()
            raise
        if answer.can_stay:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.close()
        return answer

    def _reuse(self) -> socket.socket | None:
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None  # another thread was faster
            # A connection that the node has closed is readable.
            if time.monotonic() - since < IDLE_SECONDS and not _is_readable(connection):
                return connection
            connection.close()
        return None

    def _connect(self, deadline: float) -> socket.socket:
        try:
            return self._address.connect(deadline - time.monotonic())
        except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
            _not_connected(error)

    def close(self) -> None:
        """Close idle connections."""
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


def _is_readable(connection: socket.socket) -> bool:
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return bool(poller.poll(0))


def _exchange(connection: socket.socket, request: bytes, deadline: float) -> Answer:
    try:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        connection.sendall(request)
    except OSError as error:
        # A request that is not complete is not executed.
        raise NotSent(str(error)) from error
    reader = AnswerReader()
    try:
        while True:
            answer = reader.feed(connection.recv(READ_BYTES))
            if answer is not None:
                return answer
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
    except (OSError, BadAnswer) as error:
        raise AnswerLost(str(error)) from error


class AsyncHttpConnections:
    """HTTP connections of tasks, for each event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        # A child has event loops of its own: those of its parent stay as they are.
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopConnections] = (
            WeakKeyDictionary()
        )

    async def exchange(self, request: bytes, deadline: float, *, is_write: bool) -> Answer:
        """Send a request and wait for its answer until ``deadline``.

        If the caller is cancelled, the answer to a write is awaited first.
        """
        loop = asyncio.get_running_loop()
        mine = self._loops.get(loop)
        if mine is None:
            forget_closed(self._loops)
            mine = self._loops[loop] = _LoopConnections(self._address)
        return await mine.exchange(request, deadline, is_write=is_write)

    async def close(self) -> None:
        """Close the idle connections of this event loop."""
        mine = self._loops.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.close()


class _LoopConnections:
    """The connections of one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(MAX_TASK_CONNECTIONS)

    async def exchange(self, request: bytes, deadline: float, *, is_write: bool) -> Answer:
        await self._turn(deadline)
        try:
            connection = self._reuse() or await self._connect(deadline)
            try:
                return await connection.exchange(request, deadline, is_write=is_write)
            finally:
                self._release(connection)
        finally:
            self._free.release()

    async def _turn(self, deadline: float) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.001)):
                await self._free.acquire()
        except TimeoutError:
            raise NotSent("all connections of this client are in use") from None

    def _release(self, connection: _Connection) -> None:
        if connection.is_clean:
            connection.since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()

    def _reuse(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            connection.close()
        return None

    async def _connect(self, deadline: float) -> _Connection:
        address = self._address
        loop = asyncio.get_running_loop()
        reader = _AnswerStream()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.001)):
                if address.socket_path is not None:
                    transport, _ = await loop.create_unix_connection(
                        lambda: protocol, address.socket_path
                    )
                else:
                    transport, _ = await loop.create_connection(
                        lambda: protocol, address.host, address.port, ssl=address.tls
                    )
        except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
            _not_connected(error)
        return _Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for connection in idle:
            await connection.closed()


class _AnswerStream(asyncio.StreamReader):
    """What comes from a node. It ``is_spoiled`` by what comes while no answer is awaited: a proxy
    before the node may report so that it ends an idle connection."""

    is_awaited = False
    is_spoiled = False

    def feed_data(self, data: Any) -> None:
        if not self.is_awaited:
            self.is_spoiled = True
        super().feed_data(data)

    @property
    def is_usable(self) -> bool:
        return not self.is_spoiled and not self.at_eof()


class _Connection:
    """A connection of tasks. It ``is_clean`` while no answer is missing."""

    def __init__(self, reader: _AnswerStream, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.since = time.monotonic()
        self.is_clean = True

    @property
    def is_fresh(self) -> bool:
        is_open = self._reader.is_usable and not self._writer.is_closing()
        return is_open and time.monotonic() - self.since < IDLE_SECONDS

    async def exchange(self, request: bytes, deadline: float, *, is_write: bool) -> Answer:
        self.is_clean = False
        self._reader.is_awaited = True
        self._writer.write(request)
        answering = AnswerReader()
        try:
            answer = await self._read(answering, deadline)
        except asyncio.CancelledError:
            if is_write:
                # It is under way: the caller goes on when its outcome is there.
                with contextlib.suppress(AnswerLost):
                    await finish(self._read(answering, deadline))
            raise
        return answer

    async def _read(self, answering: AnswerReader, deadline: float) -> Answer:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.001)):
                await self._writer.drain()
                while True:
                    answer = answering.feed(await self._reader.read(READ_BYTES))
                    if answer is not None:
                        self._reader.is_awaited = False
                        self.is_clean = answer.can_stay
                        return answer
        except (OSError, BadAnswer) as error:
            raise AnswerLost(str(error) or "no answer came in time") from error

    def close(self) -> None:
        self._writer.close()

    async def closed(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
