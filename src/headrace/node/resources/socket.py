"""``/socket``: the WebSocket. A request that does not begin one is told so."""

from __future__ import annotations

from typing import NoReturn

from headrace.node.http import HttpError
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.web_socket.messages import AnyAnswer, AnyRequest


async def open_socket(call: ApiCall[None, None]) -> NoReturn:
    """Topics and queues over one connection, in JSON messages."""
    raise HttpError(
        426,
        "upgrade_required",
        "this is a WebSocket: open it with a client of that protocol, at ws:// or wss://.",
    )


ENDPOINTS = [
    Endpoint(
        method="GET",
        path="/socket",
        summary="Open a WebSocket",
        handle=open_socket,
        status=101,
        message=AnyRequest,
        event=AnyAnswer,
    ),
]
