"""Accepts connections with TLS: handshakes are limited in number and time, like connections.

The server would count a connection only after its handshake, so that clients without a token could
occupy all descriptors by connecting and falling silent.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sized
from contextlib import suppress

from headrace.node.connections import NodeConnection

HANDSHAKE_SECONDS = 10.0
ACCEPT_PAUSE_SECONDS = 1.0
HANDSHAKE = b"\x16"
"""The first byte of a TLS connection: the type of a handshake record."""
MAX_REFUSED_BYTES = 1 << 20
_PROBLEM = (
    b'{"type":"urn:headrace:problem:tls_required","title":"The node speaks TLS.","status":400,'
    b'"detail":"this node speaks TLS: use https:// in place of http://.","code":"tls_required"}'
)
NO_TLS = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_PROBLEM), _PROBLEM)
)
_log = logging.getLogger("headrace.node")


class TlsAcceptor:
    """Accepts connections of a socket; ``connections`` are those whose handshake is over."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        make_connection: Callable[[], NodeConnection],
        connections: Sized,
    ) -> None:
        self._listener = listener
        self._context = context
        self._make_connection = make_connection
        self._connections = connections
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.ensure_future(self._accept_all())

    def close(self) -> None:
        """Accept no more. A client whose handshake is not over has sent no request: it is left."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except ConnectionError:
                continue  # the client left before
            except OSError as error:
                _log.warning("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            if len(self._connections) + len(self._handshakes) >= NodeConnection.limit:
                accepted.close()
                continue
            task = asyncio.ensure_future(self._shake_hands(accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # the connection is closed; errors of TLS are among them
            if not await _begins_handshake(accepted):
                return
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )


async def _begins_handshake(accepted: socket.socket) -> bool:
    """Whether a client speaks TLS; if not, its connection is closed.

    It is told so, else it would try again until its patience ends.
    """
    is_tls = False
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await _until_readable(accepted)
            first = accepted.recv(1, socket.MSG_PEEK)
            is_tls = first == HANDSHAKE
            if first and not is_tls:
                await _refuse(accepted)
    finally:
        if not is_tls:
            accepted.close()
    return is_tls


async def _until_readable(accepted: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(accepted)


async def _refuse(accepted: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(accepted, NO_TLS)
    accepted.shutdown(socket.SHUT_WR)
    # What is not read when a connection is closed makes the client lose the answer.
    left = MAX_REFUSED_BYTES
    while left > 0 and (read := await loop.sock_recv(accepted, 65536)):
        left -= len(read)
