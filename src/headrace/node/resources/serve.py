"""Serves endpoints: decodes requests, calls their handlers and encodes the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import InvalidInput
from headrace.node.http import HttpRequest, Response
from headrace.node.resources.bodies import BodyReader, options_of, read_nothing
from headrace.node.resources.endpoint import ApiCall, Created, Endpoint
from headrace.node.resources.json_encoder import encode
from headrace.node.resources.pages import ListPage
from headrace.node.resources.problem_paths import add_path
from headrace.node.routes import AnyResponse

if TYPE_CHECKING:
    from headrace.node.app import NodeApp

BASE = "/api/v1"


def register(app: NodeApp, endpoints: Sequence[Endpoint]) -> None:
    """Add the routes of endpoints to a node."""
    for endpoint in endpoints:
        app.add_route(endpoint.method, BASE + endpoint.path, _handler(app, endpoint))


def _handler(app: NodeApp, endpoint: Endpoint) -> Callable[[HttpRequest], Any]:
    reader = None if endpoint.body is None else BodyReader(endpoint.body, app.capacity)
    handle, status, keeps_work = endpoint.handle, endpoint.status, endpoint.keeps_work

    async def serve(request: HttpRequest) -> AnyResponse:
        app.capacity.check(keeps_work=keeps_work)
        body = None
        if reader is not None:
            body = await reader.read(request)
        else:
            await read_nothing(app.capacity, request)
        query = None
        if endpoint.query is not None or request.has_query:
            query = options_of(endpoint.query, request)
        caller = app.callers.of(request.identity)
        try:
            with app.capacity.running(keeps_work=keeps_work):
                answer = await handle(ApiCall(caller, request, body, query, app.capacity))
        except InvalidInput as error:
            add_path(error, body, query)
            raise
        except OverflowError:
            wrong = InvalidInput(
                "a number has more than 64 bits: nothing was written; send a smaller one."
            )
            add_path(wrong, body, query)
            raise wrong from None
        return _response(request, answer, status)

    return serve


def _response(request: HttpRequest, answer: Any, status: int) -> AnyResponse:
    if isinstance(answer, Created):
        headers = [(b"location", answer.location.encode())]
        return Response(encode(answer.answer), status=status, headers=headers)
    if isinstance(answer, ListPage):
        link = answer.link(request.path, request.query)
        headers = [] if link is None else [(b"link", link.encode())]
        return Response(encode(answer.answer), headers=headers)
    if isinstance(answer, AnyResponse):
        return answer
    if answer is None:
        return Response(status=204)
    return Response(encode(answer), status=status)
