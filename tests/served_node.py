"""A node in the test's process: one server for all tests, an application for each."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import uvicorn

from headrace.contract.store import Store
from headrace.node.app import NodeApp
from headrace.node.guard import Guard, OpenGuard
from headrace.node.shutdown import Closing
from headrace.stores import open_store


class Way(NamedTuple):
    """How clients reach a node, and the store behind it."""

    socket: str
    format: str
    store: str

    def __str__(self) -> str:
        return "-".join(self)

    def url(self, served: ServedNode) -> str:
        """The URL by which clients reach the node."""
        url = served.tcp_url if self.socket == "tcp" else served.unix_url
        return f"{url}?format={self.format}"


class ServedNode:
    """Listens on TCP and on a Unix socket, and serves the application of the present test."""

    def __init__(self, folder: Path) -> None:
        self.app: Callable[..., Awaitable[None]] | None = None
        self._path = folder / "node.sock"
        tcp = socket.create_server(("127.0.0.1", 0), backlog=1024)
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.bind(str(self._path))
        unix.listen(1024)
        self._sockets = [tcp, unix]
        self.port = int(tcp.getsockname()[1])
        self.tcp_url = f"http://127.0.0.1:{self.port}"
        self.unix_url = f"unix://{quote(str(self._path))}"
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            proxy_headers=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()
        assert self._is_ready.wait(60)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            self.loop = runner.get_loop()
            self.loop.call_soon(self._is_ready.set)
            runner.run(self._server.serve(self._sockets))

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)

    def call(self, awaitable: Any) -> Any:
        """Await something on the event loop of the server."""
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result(60)

    @contextmanager
    def serving(self, url: str, *, guard: Guard | None = None, **options: Any) -> Iterator[None]:
        """Serve the store of a URL."""
        self._guard = guard or OpenGuard()
        self._options = options
        self._begin(url)
        try:
            yield
        finally:
            self._end()

    def restart(self, url: str | None = None) -> None:
        """Serve the store, or another one, as another incarnation of the node."""
        self._end()
        self._begin(url or self._url)

    @property
    def incarnation(self) -> str:
        """The present incarnation of the node."""
        return self._node.incarnation

    @property
    def store(self) -> Store:
        """The store behind the node."""
        return self._store

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """No request is answered before the block ends; those that came are executed then."""
        thaw = threading.Event()
        self.loop.call_soon_threadsafe(thaw.wait, 60)
        try:
            yield
        finally:
            thaw.set()
            self.call(asyncio.sleep(0.01))

    def _begin(self, url: str) -> None:
        self._url = url
        self._store: Store = open_store(url, **self._options)
        self.app = self._node = NodeApp(self._store, guard=self._guard, closing=Closing())

    def _end(self) -> None:
        async def end() -> None:
            await self._node.aclose()
            await self._store.aclose()

        self.call(end())
        self._store.close()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(60)
