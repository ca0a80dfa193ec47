"""A proxy between clients and a node that breaks connections around a request."""

import contextlib
import socket
import struct
import threading
from collections import deque
from typing import Literal, Self

NodeCut = Literal["request", "half request", "answer", "half answer"]
NODE_CUTS: tuple[NodeCut, ...] = ("request", "half request", "answer", "half answer")
OPERATIONS = b"POST /api/v1/operations/"


class NodeProxy:
    """Forwards connections to a node on this machine.

    Each planned cut hits one request for an operation: the ``request`` or half of it never
    arrives, or the node has executed it, and its ``answer`` or half of it does not arrive. Then
    the connection ends, or is reset. ``cuts`` are those that have happened.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._plan: deque[NodeCut] = deque()
        self._resets = False
        self._links: list[_Link] = []
        self._is_over = False
        self.operation = b""
        self.cuts: list[NodeCut] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def plan(self, *cuts: NodeCut, operation: str = "", resets: bool = False) -> None:
        """Cut the next requests for an operation in these ways. By default, for any."""
        with self._lock:
            self._plan.extend(cuts)
            self.operation = OPERATIONS + operation.encode()
            self._resets = resets

    def next_cut(self, data: bytes) -> NodeCut | None:
        """How the request that passes is to be cut. Then it counts."""
        with self._lock:
            if not self._plan or not data.startswith(self.operation):
                return None
            self.cuts.append(self._plan.popleft())
            return self.cuts[-1]

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._is_over:
                client.close()
                return
            try:
                node = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
            else:
                self._links.append(_Link(self, client, node))

    def end_idle(self, message: bytes) -> None:
        """Send clients something that they did not ask for, and end their connections."""
        for link in self._links:
            link.end(message)

    def hang_up(self, ends: tuple[socket.socket, ...]) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                if self._resets:
                    # Closing without lingering sends a reset.
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._is_over = True
        # Wakes the thread that waits for a connection.
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()
        for link in self._links:
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Link:
    """One connection, with one thread in each direction."""

    def __init__(self, proxy: NodeProxy, client: socket.socket, node: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._node = node
        self._cut: NodeCut | None = None
        for end in (client, node):
            # An answer comes in two pieces: the second must not wait for the first one's receipt.
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [
            threading.Thread(target=pump, daemon=True) for pump in (self._requests, self._answers)
        ]
        for thread in self._threads:
            thread.start()

    def _requests(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(65536):
                self._cut = self._cut or self._proxy.next_cut(data)
                if self._cut == "half request":
                    self._node.sendall(data[: len(data) // 2])
                if self._cut in ("request", "half request"):
                    break
                self._node.sendall(data)
        self._proxy.hang_up((self._client, self._node))

    def _answers(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._node.recv(65536):
                if self._cut == "half answer":
                    self._client.sendall(data[: len(data) // 2])
                if self._cut is not None:
                    break
                self._client.sendall(data)
        self._proxy.hang_up((self._client, self._node))

    def end(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            self._client.sendall(message)
        self._proxy.hang_up((self._client, self._node))

    def close(self) -> None:
        self._proxy.hang_up((self._client, self._node))
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._node.close()
