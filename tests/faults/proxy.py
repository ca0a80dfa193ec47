"""A proxy between a client and a PostgreSQL server that breaks connections on demand."""

import contextlib
import socket
import threading
from collections import deque
from typing import Literal, Self
from urllib.parse import urlsplit

Cut = Literal["before", "after"]
Marks = dict[Cut, tuple[bytes, ...]]
# The text of the statement on its way there, the tag of its completion on its way back,
# not COMMITTED, which is in every BEGIN. Simple commits, pushes, claims and completions are one
# statement each, without a COMMIT: a word of the statement there, the name of a column back.
COMMITS: Marks = {
    "before": (
        *(b"COMMIT\0", b".append(", b".claim_records(", b".push_item(", b".push_items("),
        *(b".push_payloads(", b".claim_items(", b".complete_items("),
        *(b".append_keyed(", b".push_keyed("),
    ),
    "after": (b"COMMIT\0", b"done\0", b"answer\0"),
}
ONLY_COMMIT: Marks = {"before": (b"COMMIT\0",), "after": (b"COMMIT\0",)}


class Proxy:
    """Forwards connections to a server on this machine.

    Each planned cut hits one COMMIT: ``before`` it reaches the server, or ``after`` the server has
    answered it and before the client knows. While the proxy is not ``open``, it refuses new
    connections and counts them.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._plan: deque[Cut] = deque()
        self._stays_cut = False
        self._marks = COMMITS
        self._links: list[Link] = []
        self._is_over = False
        self.is_open = True
        self.turned_away = 0
        self.cuts: list[Cut] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def url(self, direct: str) -> str:
        """The URL of a store, through this proxy."""
        parts = urlsplit(direct)
        return parts._replace(netloc=f"{parts.username}@127.0.0.1:{self.port}").geturl()

    def plan(self, *cuts: Cut, stays_cut: bool = False, marks: Marks = COMMITS) -> None:
        """Cut the next COMMITs in these ways. The proxy may stay closed afterwards."""
        with self._lock:
            self._plan.extend(cuts)
            self._stays_cut = stays_cut
            self._marks = marks

    def is_due(self, cut: Cut, data: bytes) -> bool:
        """Whether the COMMIT that passes is to be cut in this way. Then it counts."""
        with self._lock:
            if not self._plan or self._plan[0] != cut:
                return False
            if not any(mark in data for mark in self._marks[cut]):
                return False
            self.cuts.append(self._plan.popleft())
            if self._stays_cut:
                self.is_open = False
            return True

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._is_over:
                client.close()
                return
            if self.is_open:
                self._links.append(Link(self, client, self._port))
            else:
                client.close()
                self.turned_away += 1

    def close(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        # Wakes the thread that waits for a connection.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()
        for link in self._links:
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Link:
    """One connection, with one thread in each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, port: int) -> None:
        self._proxy = proxy
        self._client = client
        self._server = socket.create_connection(("127.0.0.1", port))
        self._threads = [
            threading.Thread(target=self._pump, args=args, daemon=True)
            for args in (
                (self._client, self._server, "before"),
                (self._server, self._client, "after"),
            )
        ]
        for thread in self._threads:
            thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, cut: Cut) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._proxy.is_due(cut, data):
                    break
                sink.sendall(data)
        self._hang_up()

    def _hang_up(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._hang_up()
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()
