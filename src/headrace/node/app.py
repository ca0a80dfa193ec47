"""The node as an ASGI application: routes, identity, problem documents, streams that end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import headrace
from headrace.contract.operations import table_digest
from headrace.contract.store import Store
from headrace.contract.wire import (
    INCARNATION,
    NO_SUCH_PATH,
    NODE_PATH,
    NOTIFICATIONS_PATH,
    OPERATIONS_PATH,
    NodeInfo,
)
from headrace.errors import HeadraceError, StoreUnavailable
from headrace.model.tokens import batch_id
from headrace.node.capacity import Capacity
from headrace.node.documents.routes import register_documents
from headrace.node.group_commit import NodeGroupCommit
from headrace.node.guard import Guard, RequestIdentity
from headrace.node.guarded_store import GuardedStore
from headrace.node.http import (
    Disconnected,
    HttpError,
    HttpRequest,
    Receive,
    Response,
    ResponseStream,
    Scope,
    Send,
    finish,
)
from headrace.node.notifications import NotificationHandler
from headrace.node.operations import OperationHandler
from headrace.node.problems import (
    Report,
    problem_response,
    respond_problem,
    unexpected,
)
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.callers import Callers
from headrace.node.resources.serve import register
from headrace.node.routes import AnyResponse, Handler, Routes
from headrace.node.shutdown import Closing
from headrace.node.streams.hub import NodeStreams
from headrace.node.streams.response import RecordStream
from headrace.node.web_socket.session import SocketSession
from headrace.node.web_socket.socket import SOCKET_PATH, WebSocket
from headrace.node.willow.serve import add_willow

log = logging.getLogger("headrace.node")

Observe = Callable[[str, int, float], None]
"""Called after each response with the route (or the operation), the status and the seconds."""


class NodeApp:
    """Serves a store over HTTP, to any ASGI server.

    Every route needs an identity, unless it is added as open. The store stays open when the
    application ends: it belongs to the caller. With ``groups_writes`` pushes and commits of all
    clients share transactions. With ``willow`` it has the routes of Willow, too.
    """

    def __init__(
        self,
        store: Store,
        *,
        guard: Guard,
        closing: Closing,
        observe: Observe | None = None,
        incarnation: str | None = None,
        groups_writes: bool = True,
        willow: bool = True,
    ) -> None:
        self.store = store
        self.guard = guard
        self.closing = closing
        self.incarnation = incarnation or batch_id()
        self._observe = observe
        self._head = [(INCARNATION.encode(), self.incarnation.encode())]
        self._routes = Routes()
        self.streams = NodeStreams(store, guard, closing)
        self.capacity = Capacity(closing)
        self.groups = NodeGroupCommit(store) if groups_writes else None
        self._operations = OperationHandler(
            store, guard, self.capacity, self.incarnation, groups=self.groups
        )
        self.callers = Callers(self)
        self.add_route("POST", f"{OPERATIONS_PATH}{{operation}}", self._operations)
        notifications = NotificationHandler(self.streams.words, self.streams.slots, guard)
        self.add_route("GET", f"{NOTIFICATIONS_PATH}{{word}}", notifications)
        self.add_route("GET", NODE_PATH, self._node)
        register(self, ENDPOINTS)
        register_documents(self)
        if willow:
            add_willow(self)

    def add_route(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        is_open: bool = False,
        report: Report = respond_problem,
    ) -> None:
        """Add a route. Segments in braces, as in ``/queues/{queue}``, become parameters.

        ``report`` makes the response for an error.
        """
        self._routes.add(method, path, handler, is_open=is_open, report=report)

    def store_for(self, identity: RequestIdentity) -> GuardedStore:
        """The store as an identity may use it."""
        return GuardedStore(self.store, self.guard, identity, self.groups, self.streams.words)

    def close(self) -> None:
        """End polls and streams. Call it on the node's event loop."""
        self.closing.begin()
        self.streams.close()

    async def aclose(self) -> None:
        """End what the application has started, and wait for it. The store stays open."""
        self.close()
        await self.streams.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(HttpRequest(scope, receive), send)
        elif scope["type"] == "websocket":
            await self._serve_socket(WebSocket(scope, receive, send))
        else:
            raise NotImplementedError(f"a node does not speak {scope['type']}")

    async def _serve(self, request: HttpRequest, send: Send) -> None:
        started = time.perf_counter()
        try:
            response = await self._respond(request)
        except Disconnected:
            return
        if isinstance(response, ResponseStream):
            status = await self._stream(request, response, send)
        elif isinstance(response, RecordStream):
            status = await self.streams.send_records(request, response, send, self._head)
        else:
            status = response.status
            await self._send(response, send)
        if self._observe is not None:
            self._observe(request.label, status, time.perf_counter() - started)

    async def _serve_socket(self, socket: WebSocket) -> None:
        """Serve a socket until it ends, or refuse it like any other request."""
        request, started = socket.request, time.perf_counter()
        refusal = await self._socket_refusal(request)
        if refusal is not None:
            await socket.refuse(refusal, self._head)
        else:
            with self.streams.slots.held(request.identity):
                await socket.accept(self._head)
                session = SocketSession(self, socket)
                with self.streams.keeper.keeping(session):
                    await session.run()
        if self._observe is not None:
            status = 101 if refusal is None else refusal.status
            self._observe(request.label, status, time.perf_counter() - started)

    async def _socket_refusal(self, request: HttpRequest) -> Response | None:
        try:
            if request.path != SOCKET_PATH:
                raise HttpError(
                    404, NO_SUCH_PATH, f"the node has no socket at {request.path}: {SOCKET_PATH}."
                )
            request.label = SOCKET_PATH
            request.identity = await self.guard.authenticate(request)
            self.streams.check(request.identity)
        except (HeadraceError, HttpError) as error:
            return problem_response(error)
        except Exception:
            log.exception("%s failed", request.label)
            return respond_problem(unexpected())
        return None

    async def _respond(self, request: HttpRequest) -> AnyResponse:
        report: Report = respond_problem
        try:
            route, request.parameters = self._routes.find(request)
            request.label, report = route.path, route.report
            if not route.is_open:
                request.identity = await self.guard.authenticate(request)
            response = await route.handler(request)
            if isinstance(response, RecordStream):
                self.streams.check(request.identity)
            return response
        except (HeadraceError, HttpError) as error:
            return problem_response(error, report)
        except Disconnected:
            raise
        except Exception:
            # The client learns that, but not why: the reason may hold what is not its business.
            log.exception("%s %s failed", request.method, request.label)
            return report(unexpected())

    async def _send(self, response: Response, send: Send) -> None:
        body = response.body
        headers = [
            *self._head,
            (b"content-type", response.content_type.encode()),
            (b"content-length", b"%d" % len(body)),
            *response.headers,
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, request: HttpRequest, stream: ResponseStream, send: Send) -> int:
        """Send a stream until its client leaves, or the node is stopping."""
        if self.closing.has_begun:
            refusal = StoreUnavailable("the node is stopping: try again when it is back.")
            await self._send(problem_response(refusal), send)
            return 503
        headers = [
            *self._head,
            (b"content-type", stream.content_type.encode()),
            (b"cache-control", b"no-store"),
            # The end of the stream is the end of its connection.
            (b"connection", b"close"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def pump() -> None:
            async for chunk in stream.chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

        await _first(pump(), request.disconnected(), self.closing.wait())
        await stream.chunks.aclose()  # type: ignore[attr-defined]  # an async generator
        await finish(request, send)
        return 200

    async def _node(self, request: HttpRequest) -> Response:
        return Response.json(
            NodeInfo(
                version=headrace.__version__,
                operations=table_digest(),
                incarnation=self.incarnation,
                store=self.store.name,
                capabilities=self.store.capabilities,
            )
        )

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until one ends, then cancel the others. Errors of that one are raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
