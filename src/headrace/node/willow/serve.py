"""Serves Willow's routes: decodes requests, calls their handlers, reports errors as Willow does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace import errors
from headrace.contract.wire import JSON, Problem
from headrace.errors import InvalidInput
from headrace.model.query.willow_json import parsed
from headrace.node.http import HttpRequest, Response
from headrace.node.problems import respond_problem
from headrace.node.willow import channels, counters, items, locks, overrides, queues, rules
from headrace.node.willow.route import Call, WillowRoute

if TYPE_CHECKING:
    from headrace.node.app import NodeApp

ROUTES: list[WillowRoute] = [
    *queues.ROUTES,
    *channels.ROUTES,
    *items.ROUTES,
    *rules.ROUTES,
    *overrides.ROUTES,
    *counters.ROUTES,
    *locks.ROUTES,
]

GONE = {errors.ItemLost.code, errors.ItemGone.code}
"""What is not found in Willow's words. For us it was lost, or deleted: the codes say so."""

_encode = msgspec.json.Encoder().encode


def add_willow(app: NodeApp) -> None:
    """Add Willow's routes to a node, at the paths of its document."""
    for route in ROUTES:
        handler = _handler(app, route)
        for method, path in route.ways:
            app.add_route(method, path, handler, report=respond_message)


def respond_message(problem: Problem) -> Response:
    """An error as Willow reports it, with our code beside the message."""
    response = respond_problem(problem)
    response.status = 404 if problem.code in GONE else problem.status
    response.body = _encode({"Message": problem.detail, "code": problem.code})
    response.content_type = JSON
    return response


def _handler(app: NodeApp, route: WillowRoute) -> Callable[[HttpRequest], Any]:
    handle, status, keeps_work = route.handle, route.status, route.keeps_work

    async def serve(request: HttpRequest) -> Response:
        app.capacity.check(keeps_work=keeps_work)
        # Whatever its Content-Type says: Willow's own clients forget it now and then. A page of
        # another site cannot use that, since the guard refuses its origin.
        body = parsed(await app.capacity.read(request), InvalidInput) if route.has_body else None
        caller = app.callers.of(request.identity)
        with app.capacity.running(keeps_work=keeps_work):
            answer = await handle(Call(caller, request, body, None, app.capacity))
        if isinstance(answer, Response):
            return answer
        return Response(b"" if answer is None else _encode(answer), status=status)

    return serve
