"""Serves the documents of the API.

They need a token as everything does: which release a node runs, and what it can do, is not for
strangers. No scope is needed, for they hold nothing of the store's.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from headrace.contract.wire import JSON
from headrace.node.http import HttpRequest, Response
from headrace.node.resources.serve import BASE

if TYPE_CHECKING:
    from headrace.node.app import NodeApp

BLUEPRINT = "text/vnd.apiblueprint; charset=utf-8"


def register_documents(app: NodeApp) -> None:
    """Add the routes of the documents to a node."""
    app.add_route("GET", f"{BASE}/openapi.json", _handler(_openapi, JSON))
    app.add_route("GET", f"{BASE}/asyncapi.json", _handler(_asyncapi, JSON))
    app.add_route("GET", f"{BASE}/blueprint.apib", _handler(_blueprint, BLUEPRINT))


def _handler(
    make: Callable[[], bytes], content_type: str
) -> Callable[[HttpRequest], Awaitable[Response]]:
    # All nodes of a release have the same documents. The first request for one makes it, in a
    # thread, and imports what makes it: most nodes are never asked.
    kept = functools.cache(make)

    async def serve(request: HttpRequest) -> Response:
        return Response(await asyncio.to_thread(kept), content_type=content_type)

    return serve


def _openapi() -> bytes:
    from headrace.node.documents.openapi import openapi

    return msgspec.json.encode(openapi())


def _asyncapi() -> bytes:
    from headrace.node.documents.asyncapi import asyncapi

    return msgspec.json.encode(asyncapi())


def _blueprint() -> bytes:
    from headrace.node.documents.blueprint import blueprint

    return blueprint().encode()
