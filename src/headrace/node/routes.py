"""From a method and a path to a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from headrace.contract.wire import NO_SUCH_PATH
from headrace.node.http import HttpError, HttpRequest, Response, ResponseStream
from headrace.node.problems import Report, respond_problem
from headrace.node.streams.response import RecordStream

MAX_FOUND = 1000
AnyResponse = Response | ResponseStream | RecordStream
Handler = Callable[[HttpRequest], Awaitable[AnyResponse]]


class Route(NamedTuple):
    """A handler, and the path it was added with. An open route needs no identity.

    ``report`` makes the response for an error.
    """

    path: str
    handler: Handler
    is_open: bool
    report: Report


class _Branch:
    """A place in the tree of paths."""

    __slots__ = ("any", "names", "routes", "segments")

    def __init__(self) -> None:
        self.segments: dict[str, _Branch] = {}
        # Where a segment in braces continues.
        self.any: _Branch | None = None
        # The route of each method that ends here, and its parameters' names.
        self.routes: dict[str, Route] = {}
        self.names: dict[str, list[str]] = {}


class Routes:
    """All routes of a node, as a tree of segments. A segment that is written out comes first."""

    def __init__(self) -> None:
        self._root = _Branch()
        # What was found before: most requests are for one of few paths.
        self._found: dict[tuple[str, str], tuple[Route, dict[str, str]]] = {}

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        is_open: bool = False,
        report: Report = respond_problem,
    ) -> None:
        branch = self._root
        names = []
        for segment in path[1:].split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                branch.any = branch = branch.any or _Branch()
            else:
                branch = branch.segments.setdefault(segment, _Branch())
        branch.routes[method] = Route(path, handler, is_open, report)
        self._found.clear()
        branch.names[method] = names

    def __iter__(self) -> Iterator[Route]:
        branches = [self._root]
        while branches:
            branch = branches.pop()
            yield from branch.routes.values()
            branches += [*branch.segments.values(), *filter(None, [branch.any])]

    def find(self, request: HttpRequest) -> tuple[Route, dict[str, str]]:
        """The route of a request and its parameters, or the refusal that says what is wrong."""
        found = self._found.get((request.method, request.path))
        if found is None:
            found = self._search(request)
            if len(self._found) < MAX_FOUND:
                self._found[request.method, request.path] = found
        return found

    def _search(self, request: HttpRequest) -> tuple[Route, dict[str, str]]:
        branch: _Branch | None = self._root
        values = []
        for segment in request.segments:
            assert branch is not None
            step = branch.segments.get(segment)
            if step is None and branch.any is not None and segment:
                step = branch.any
                values.append(segment)
            branch = step
            if branch is None:
                break
        if branch is None or not branch.routes:
            raise HttpError(404, NO_SUCH_PATH, f"the node has nothing at {request.path}.")
        route = branch.routes.get(request.method)
        if route is None:
            allowed = ", ".join(sorted(branch.routes))
            raise HttpError(
                405,
                "method_not_allowed",
                f"{request.path} has only {allowed}.",
                headers=[(b"allow", allowed.encode())],
            )
        return route, dict(zip(branch.names[request.method], values, strict=True))
