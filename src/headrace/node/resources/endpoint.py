"""Endpoints: each is one value that registers a handler and describes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import quote

from headrace._async.headrace import AsyncHeadrace
from headrace.contract.store import Store
from headrace.core.requests.request import Request
from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.node.capacity import Capacity
from headrace.node.http import HttpRequest
from headrace.node.resources.callers import Caller

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")

MAX_KEY_LENGTH = 200
KEY = b"idempotency-key"


class ApiCall(Generic[B, Q]):
    """A request of the API, decoded: ``hr`` and ``store`` allow what its sender may do."""

    __slots__ = ("_hr", "body", "capacity", "closing", "query", "request", "requests", "store")

    def __init__(
        self, caller: Caller, request: HttpRequest, body: B, query: Q, capacity: Capacity
    ) -> None:
        self.store = caller.store
        # Single operations, for what a client would do with several of them, or more slowly.
        self.requests = caller.requests
        self.request = request
        self.body = body
        self.query = query
        self.capacity = capacity
        self.closing = capacity.closing
        self._hr: AsyncHeadrace | None = None

    @property
    def hr(self) -> AsyncHeadrace:
        """A client for this request. Made when it is needed: some requests do without it."""
        if self._hr is None:
            self._hr = AsyncHeadrace(cast("Store", self.store), max_body=DEFAULT_MAX_BODY)
        return self._hr

    async def run(self, request: Request[T]) -> T:
        """Run one of the requests."""
        answer = await self.store.arun(request.op)
        return answer if request.finish is None else request.finish(answer)

    def __getitem__(self, name: str) -> str:
        """A segment of the path, by its name."""
        return self.request.parameters[name]

    @property
    def key(self) -> str | None:
        """The idempotency key, if the request has one."""
        text = self.request.header(KEY)
        if text is None:
            return None
        # The draft wants a quoted string; most clients send the bare text.
        key = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
        if not 0 < len(key) <= MAX_KEY_LENGTH:
            raise InvalidOption(
                f"the header Idempotency-Key is empty or longer than {MAX_KEY_LENGTH} characters.",
                option="key",
            )
        return key

    def below(self, *names: str | int) -> str:
        """The path of what is below the one that was asked for, for a Location."""
        quoted = [str(name) if type(name) is int else quote(str(name), safe="") for name in names]
        return "/".join([self.request.path, *quoted])


class Created(NamedTuple):
    """An answer about something new, and the path at which it is now."""

    answer: Any
    location: str


Handle = Callable[[ApiCall[Any, Any]], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One method of one path.

    ``body`` and ``query`` are the types of what a request brings, ``answer`` that of what comes
    back; None for nothing. If the answer is a stream, ``event`` is the type of what it consists of;
    over a WebSocket the client sends ``message``s. Both may be unions.
    ``example`` is the body of a request that works. ``keeps_work`` says that it ends claimed work,
    or keeps it claimed: a node has some capacity for that only. With ``takes_key`` a request may
    have an idempotency key.
    """

    method: str
    path: str
    summary: str
    handle: Handle
    body: Any = None
    query: Any = None
    answer: Any = None
    event: Any = None
    message: Any = None
    status: int = 200
    keeps_work: bool = False
    takes_key: bool = False
    example: Any = None

    @property
    def name(self) -> str:
        """The name of the operation: ``push_items``, for example."""
        return self.handle.__name__
