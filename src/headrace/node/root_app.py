"""What a node answers even while its store is away: ``/health`` and ``/ready``.

Anyone may ask, without a token, so the answers do not say why: errors of a store may name its host.
The node's log has the reason. Everything else is for the app that serves the store, from the moment that the store is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from headrace.errors import StoreUnavailable
from headrace.node.http import HttpError, Receive, Response, Scope, Send
from headrace.node.problems import problem_response
from headrace.node.store_access import StoreAccess
from headrace.node.supervised_loop import SupervisedLoop
from headrace.node.web_socket.socket import WebSocket

AWAY = "the node cannot reach its store, as its log says"
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RootApp:
    """An ASGI app: the probes, and ``app`` for everything else."""

    def __init__(self, access: StoreAccess) -> None:
        self.app: App | None = None
        self.loops: Sequence[SupervisedLoop] = ()
        self.is_stopping = False
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path")
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
        elif path == "/health":
            await _send(send, _probe_response(scope, self._health()))
        elif path == "/ready":
            await _send(send, _probe_response(scope, self._ready()))
        elif self.app is not None:
            await self.app(scope, receive, send)
        else:
            await _send(send, _away())

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.app is not None:
            await self.app(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).refuse(_away())

    @property
    def not_ready(self) -> str | None:
        """Why clients should not send requests; None if they may."""
        if self.is_stopping:
            return "the node is stopping"
        return AWAY if self._access.problem else None

    def _health(self) -> Response:
        late = {
            loop.name: f"no success for {loop.age:.0f} s" for loop in self.loops if loop.is_late
        }
        if late:
            return Response.json({"status": "failed", "loops": late}, status=503)
        return Response.json({"status": "ok"})

    def _ready(self) -> Response:
        reason = self.not_ready
        if reason is not None:
            return Response.json({"status": "not ready", "reason": reason}, status=503)
        return Response.json({"status": "ready"})


def _away() -> Response:
    return problem_response(StoreUnavailable(f"{AWAY}: nothing was written; try again."))


def _probe_response(scope: Scope, response: Response) -> Response:
    if scope["method"] in ("GET", "HEAD"):
        return response
    path = scope["path"]
    refusal = HttpError(
        405,
        "method_not_allowed",
        f"{path} has only GET, HEAD.",
        headers=[(b"allow", b"GET, HEAD")],
    )
    return problem_response(refusal)


async def _send(send: Send, response: Response) -> None:
    headers = [
        (b"content-type", response.content_type.encode()),
        (b"content-length", b"%d" % len(response.body)),
        (b"cache-control", b"no-store"),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
