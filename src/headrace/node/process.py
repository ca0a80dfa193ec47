"""A node as a whole: from options to a process that serves a store."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

import msgspec

from headrace import local_nodes, telemetry
from headrace._sync.headrace import Headrace
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.contract.threads import in_thread
from headrace.errors import HeadraceError, InvalidOption, StoreUnavailable
from headrace.local_nodes import SOCKET_FILE, FileLock, NodeRecord
from headrace.model.access_tokens import new_token
from headrace.model.scopes import ALL, Need
from headrace.model.times import duration_ms, optional_ms
from headrace.model.tokens import batch_id
from headrace.model.topics.retention import Retention
from headrace.node.app import NodeApp
from headrace.node.figures import StoreFigures
from headrace.node.http import HttpRequest, Response
from headrace.node.metrics import CONTENT_TYPE, Family, NodeMetrics, family_lines
from headrace.node.options import NodeOptions, RetentionChoice
from headrace.node.root_app import RootApp
from headrace.node.server import NodeServer
from headrace.node.shutdown import Closing
from headrace.node.sockets import ListeningSocket, listen_unix
from headrace.node.token_guard import TokenGuard, check_need
from headrace.node.worker_processes import WorkerProcesses, worker_environment
from headrace.stores import open_store

PATIENCE_SECONDS = 5.0
"""How long a node tries for a request while its store is away. Its clients have patience, too."""
WORKER_GRACE_SECONDS = 35.0
READ_NODE = Need("read", "node", ALL)
_log = logging.getLogger("headrace")


class NodeProcess:
    """A node that runs in this process until it is stopped.

    ``on_ready`` is called with what clients need to know when the store is open and the workers
    have started, ``on_away`` with the reason while it cannot be opened, and ``on_stop`` when the
    node begins to stop.
    """

    def __init__(
        self,
        options: NodeOptions,
        listeners: Sequence[ListeningSocket],
        lock: FileLock,
        *,
        on_ready: Callable[[NodeRecord], None] = lambda record: None,
        on_away: Callable[[str], None] = lambda reason: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options
        private = next((one for one in listeners if one.path is not None), None)
        if private is None and options.tls is not None:
            private = _listen_privately(options.namespace)
            listeners = [*listeners, private]
        self._listeners = listeners
        self._lock = lock
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._metrics = NodeMetrics()
        self._app: NodeApp | None = None
        self._guard: TokenGuard | None = None
        self._problem: HeadraceError | None = None
        self.record = NodeRecord(
            url=listeners[0].url,
            pid=0,
            incarnation=batch_id(),
            token=_token(options, listeners),
            private_url=None if private is None else private.url,
            is_open=options.is_open,
        )
        self._server = NodeServer(
            self._open_store,
            self._make_app,
            listeners,
            tls=options.tls,
            on_ready=self._ready,
            on_away=on_away,
            before_stop=self._stop_workers,
            on_stop=self._stopping,
            before_close=self._close_app,
        )
        environment = worker_environment(self._worker_url())
        self._workers = WorkerProcesses(
            options.workers,
            environment,
            self._give_up,
            on_started=lambda: self._on_ready(self.record),
            start_seconds=options.start_seconds,
        )

    def run(self) -> None:
        """Serve until a signal or ``stop``; the namespace and the sockets are free afterwards."""
        self.record = msgspec.structs.replace(self.record, pid=os.getpid())
        unsubscribe = telemetry.subscribe(self._metrics.count_operation)
        local_nodes.write(self._options.namespace, self.record)
        has_crashed = True
        try:
            self._server.run()
            has_crashed = False
        except HeadraceError:
            has_crashed = False
            raise
        finally:
            unsubscribe()
            self._workers.stop(0)
            local_nodes.remove(self._options.namespace, self.record.incarnation)
            for listener in self._listeners:
                # The spawner of a node that crashed starts another one on the same socket.
                listener.close(keep_file=has_crashed)
            self._lock.release()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Stop gracefully; may be called from any thread."""
        self._server.stop()

    def _open_store(self) -> Store:
        options = {"patience": PATIENCE_SECONDS, **self._options.connect}
        store = open_store(self._options.url, **options)
        if self._options.retention is not None:
            try:
                store.run(_retention_op(store, self._options.retention))
            except BaseException:
                store.close()
                raise
        return store

    def _make_app(self, store: Store, client: Headrace, root: RootApp, closing: Closing) -> NodeApp:
        self._guard = TokenGuard(
            store,
            closing,
            local_token=self.record.token,
            hosts=[*self._options.hosts, *_hosts(self._listeners)],
            is_open=self._options.is_open,
        )
        app = NodeApp(
            store,
            guard=self._guard,
            closing=closing,
            observe=self._metrics.count_request,
            incarnation=self.record.incarnation,
            willow=self._options.willow,
        )
        figures = StoreFigures(client)

        async def metrics(request: HttpRequest) -> Response:
            check_need(request.identity, "reading metrics", READ_NODE)
            try:
                families = await in_thread(figures.families)
            except StoreUnavailable:
                families = []  # the node's own figures say so
            lines = [*self._node_lines(root), *self._metrics.lines(), *_all_lines(families)]
            return Response("\n".join([*lines, ""]).encode(), content_type=CONTENT_TYPE)

        app.add_route("GET", "/metrics", metrics)
        self._app = app
        return app

    def _node_lines(self, root: RootApp) -> Iterable[str]:
        is_ready = 0.0 if root.not_ready else 1.0
        yield from family_lines(
            Family("headrace_node_ready", "gauge", "Whether the store answers.", [({}, is_ready)])
        )
        ages = [({"loop": loop.name}, loop.age) for loop in root.loops]
        yield from family_lines(
            Family("headrace_loop_age_seconds", "gauge", "Time since a loop succeeded.", ages)
        )

    def _worker_url(self) -> str:
        if self._options.url.startswith("memory:"):
            return self.record.local_url
        return self._options.url

    def _ready(self) -> None:
        self._workers.start()

    def _stop_workers(self) -> None:
        if self._problem is None:
            self._on_stop()
        # First: workers of a store in memory are clients of the node until their last item.
        self._workers.stop(WORKER_GRACE_SECONDS)

    def _stopping(self) -> None:
        if self._app is not None:
            self._app.close()

    async def _close_app(self) -> None:
        if self._app is not None and self._guard is not None:
            await self._app.aclose()
            await self._guard.aclose()

    def _give_up(self, problem: str) -> None:
        self._problem = InvalidOption(problem, option="worker")
        self.stop()


def _listen_privately(namespace: str) -> ListeningSocket:
    """The socket for the node's own workers and for tools of its user: they have no certificates."""
    return listen_unix(local_nodes.namespace_folder(namespace) / SOCKET_FILE)


def _token(options: NodeOptions, listeners: Sequence[ListeningSocket]) -> str | None:
    """The token for local tools, if they come by TCP. The mode of a Unix socket is an identity."""
    if options.is_open or all(listener.path is not None for listener in listeners):
        return None
    return local_nodes.local_token(options.namespace, new_token().text)


def _hosts(listeners: Sequence[ListeningSocket]) -> list[str]:
    """The names that clients reach a node by."""
    hosts = (urlsplit(listener.url).hostname for listener in listeners if listener.path is None)
    return [host for host in hosts if host]


def _retention_op(store: Store, choice: RetentionChoice) -> Op[Retention]:
    return store.admin.set_default_retention(
        optional_ms("min_age", choice.min_age),
        None,
        duration_ms("interval", choice.interval, least=1),
    )


def _all_lines(families: Iterable[Family]) -> Iterable[str]:
    for family in families:
        yield from family_lines(family)
