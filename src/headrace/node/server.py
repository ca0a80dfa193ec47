"""The node's process: serves listening sockets until it is told to stop.

The order of a stop: ``/ready`` answers 503, worker processes end, polls and streams end, running
requests finish, loops end, the store closes. ``STOP_SECONDS`` is the limit for requests,
``CLOSE_SECONDS`` for the rest. A second signal ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace._sync.headrace import Headrace
from headrace.contract.missing_part import has_part
from headrace.contract.schedules import SCHEDULES_CHANGED
from headrace.contract.store import Store
from headrace.contract.threads import in_thread
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.node.options import require_server
from headrace.node.root_app import App, RootApp
from headrace.node.shutdown import Closing
from headrace.node.sockets import ListeningSocket
from headrace.node.store_access import StoreAccess
from headrace.node.supervised_loop import SupervisedLoop
from headrace.node.tls import TlsFiles, server_context
from headrace.node.web_socket.messages import MAX_MESSAGE_BYTES
from headrace.services.schedule_fires import MAX_SLEEP_SECONDS, ScheduleFiring
from headrace.services.watch import Watch

if TYPE_CHECKING:
    import uvicorn

KEEP_ALIVE_SECONDS = 75
STOP_SECONDS = 20
LOOP_STOP_SECONDS = 5.0
CLOSE_SECONDS = 15.0
SCHEDULES = "schedules"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("headrace")


class NodeServer:
    """Serves one store on some listeners.

    ``make_app`` returns the app for the store, once it is open, and ``on_ready`` is called then.
    ``on_away`` is called with the reason while the store cannot be opened. All three are called on
    the event loop. ``before_stop`` is called in a thread before the node stops to answer, and
    ``on_stop`` on the event loop thereafter. ``before_close`` is awaited when all requests are
    answered, before the store closes.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        make_app: Callable[[Store, Headrace, RootApp, Closing], App],
        listeners: Sequence[ListeningSocket],
        *,
        tls: TlsFiles | None = None,
        on_ready: Callable[[], None] = lambda: None,
        on_away: Callable[[str], None] = lambda reason: None,
        before_stop: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
        before_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._make_app = make_app
        self._listeners = listeners
        self._tls = tls
        self._on_ready = on_ready
        self._before_stop = before_stop
        self._on_stop = on_stop
        self._before_close = before_close
        self._access = StoreAccess(open_store, on_away)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._client: Headrace | None = None
        self._loops: Sequence[SupervisedLoop] = ()
        self._watch: Watch | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Serve until a signal, or ``stop``. Raises why the store cannot be served, if so."""
        require_server()
        import uvloop

        from headrace.node.connections import NodeConnection, connection_limit

        NodeConnection.limit = connection_limit()
        # The server's own lines about bad requests would let any client fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop gracefully; may be called from any thread."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(stop.set)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), (stop := asyncio.Event())
        closing = Closing()
        root = RootApp(self._access)
        with self._signals(self._loop):
            servers = [_server(root, listener, self._tls) for listener in self._listeners]
            serving = asyncio.gather(
                *(
                    server.serve(sockets=[listener.socket])
                    for server, listener in zip(servers, self._listeners, strict=True)
                )
            )
            # A server that fails ends the node, too.
            serving.add_done_callback(lambda _: stop.set())
            opening = asyncio.ensure_future(self._open(root, closing))
            await stop.wait()
            root.is_stopping = True
            await in_thread(self._before_stop)
            backstop = _start_backstop() if _is_main_thread() else None
            closing.begin()
            self._on_stop()
            for server in servers:
                server.should_exit = True
            try:
                await serving
            finally:
                await self._close(opening)
                if backstop is not None:
                    backstop.cancel()

    async def _open(self, root: RootApp, closing: Closing) -> None:
        """Open the store and serve it; a store that cannot be served stops the node."""
        try:
            store = await self._access.open()
            self._client = client = Headrace(store, max_body=DEFAULT_MAX_BODY)
            root.app = self._make_app(store, client, root, closing)
            self._loops = root.loops = (self._access.probe, *background_loops(store, client))
            for loop in root.loops:
                loop.start()
            self._watch = schedule_watch(store, root.loops)
            self._on_ready()
        except Exception as error:  # raised again by run
            self._error = error
            assert self._stop is not None
            self._stop.set()

    async def _close(self, opening: asyncio.Future[None]) -> None:
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        if self._watch is not None:
            self._watch.end()
        for loop in self._loops:
            loop.end()
        if self._watch is not None:
            await in_thread(self._watch.join, LOOP_STOP_SECONDS)
        for loop in self._loops:
            await in_thread(loop.join, LOOP_STOP_SECONDS)
        if self._before_close is not None:
            await self._before_close()
        if self._access.store is not None:
            # On the event loop that used it, else its connections leak.
            await self._access.store.aclose()
        if self._client is not None:
            await in_thread(self._client.close)

    @contextlib.contextmanager
    def _signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        # Elsewhere signals belong to the program that runs the node in a thread.
        handled = SIGNALS if _is_main_thread() else ()
        for number in handled:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        assert self._stop is not None
        if self._stop.is_set():
            # Nothing is lost: what was acknowledged is in the store.
            os._exit(128 + number)
        self._stop.set()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _start_backstop() -> threading.Timer:
    """End the process if something does not end: a database that is silent, for example."""

    def end() -> None:
        _log.error("the node did not stop in time, and ends", extra={"action": "stop"})
        os._exit(1)

    backstop = threading.Timer(STOP_SECONDS + CLOSE_SECONDS, end)
    backstop.daemon = True
    backstop.start()
    return backstop


def background_loops(store: Store, client: Headrace) -> Iterator[SupervisedLoop]:
    """What a node does by itself, as far as its store has the parts for it."""
    yield maintenance_loop(client)
    if has_part(store, "schedules"):
        yield schedule_loop(store)


def schedule_loop(store: Store) -> SupervisedLoop:
    """The loop that fires schedules when they are due."""
    return SupervisedLoop(
        SCHEDULES, MAX_SLEEP_SECONDS, ScheduleFiring(store).fire, longest=MAX_SLEEP_SECONDS
    )


def schedule_watch(store: Store, loops: Sequence[SupervisedLoop]) -> Watch | None:
    """What calls the loop earlier when a schedule has changed."""
    for loop in loops:
        if loop.name == SCHEDULES:
            watch = Watch(store, SCHEDULES_CHANGED, loop.poke, "headrace-node-schedule-watch")
            watch.start()
            return watch
    return None


def maintenance_loop(client: Headrace) -> SupervisedLoop:
    """The loop that runs maintenance whenever it is due."""

    def step() -> float:
        return client.admin.maintain().interval

    return SupervisedLoop("maintenance", 30.0, step)


def _server(app: RootApp, listener: ListeningSocket, tls: TlsFiles | None) -> uvicorn.Server:
    import uvicorn

    from headrace.node.connections import NodeConnection
    from headrace.node.tls_acceptor import TlsAcceptor
    from headrace.node.web_socket.connection import SocketConnection

    class Server(uvicorn.Server):
        """A server that leaves signals to the node, and accepts connections with TLS by ours."""

        acceptor: TlsAcceptor | None = None

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            # A Unix socket needs no TLS: its traffic does not leave the machine.
            if tls is None or listener.path is not None:
                await super().startup(sockets)
                return
            state = self.server_state
            make = partial(NodeConnection, config=self.config, server_state=state, app_state={})
            self.servers = []
            self.acceptor = TlsAcceptor(
                listener.socket, server_context(tls), make, state.connections
            )
            self.started = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if self.acceptor is not None:
                self.acceptor.close()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            app,
            http=NodeConnection,
            ws=SocketConnection,
            ws_max_size=MAX_MESSAGE_BYTES,
            # A message that is short when it is sent could be long here.
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )
