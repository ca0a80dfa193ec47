"""Notifications of a node: the socket of a response without an end."""

from __future__ import annotations

import ssl
import time

from headrace.contract.wire import HINT, KEEP_ALIVE
from headrace.drivers.http.address import Address

HINT_SECONDS = 1.0
"""How long a node may be silent here: nothing depends on hints, and callers wait."""
SILENT_SECONDS = 45.0
"""After how long without a sign of life a stream counts as dead. Nodes send one every 15 s."""


class NodeSource:
    """Hints from a node: see ``drivers.notifier.Source``.

    It is made when the node listens, so that nothing that happens later is missed.
    """

    is_sure = True

    def __init__(self, address: Address, request: bytes) -> None:
        self._heard_at = time.monotonic()
        self._socket = address.connect(HINT_SECONDS)
        try:
            self._socket.settimeout(HINT_SECONDS)
            self._socket.sendall(request)
            self._begin()
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise

    def _begin(self) -> None:
        heard = b""
        while KEEP_ALIVE not in heard.partition(b"\r\n\r\n")[2]:
            data = self._socket.recv(65536)
            heard += data
            if not data or (len(heard) > 12 and heard[9:12] != b"200"):
                raise OSError("the node refuses notifications")

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> bool:
        heard = b""
        # Under TLS the socket may be silent while bytes wait in the library: read until none.
        while True:
            try:
                data = self._socket.recv(65536)
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            if not data:
                raise OSError("the node ended its notifications")
            heard += data
        self._heard_at = time.monotonic()
        return HINT in heard

    def keep(self) -> bool:
        if time.monotonic() - self._heard_at > SILENT_SECONDS:
            raise OSError("the node is silent")
        return False

    def close(self) -> None:
        self._socket.close()
