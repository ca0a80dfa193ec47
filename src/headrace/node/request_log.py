"""Requests that run, and recent answers: a repeated request gets the answer of the first one.

A client whose connection broke cannot know whether its request was executed. It sends the request
again under the same id. Requests that change nothing are not kept here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from headrace.errors import OutcomeUnknown
from headrace.node.http import Response

KEPT_SECONDS = 120.0
MAX_ANSWERS = 10_000
MAX_BYTES = 64 * 1024 * 1024
RequestKey = tuple[str, str, str]
"""The sender's name, the operation and the request's id."""


class RequestLog:
    """The requests of one incarnation of a node, by key."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # In the order in which they arrived.
        self._answers: dict[RequestKey, _Entry] = {}
        self._bytes = 0
        # When the last request arrived whose answer is no longer kept.
        self._forgotten = float("-inf")

    async def answer(
        self,
        key: RequestKey,
        respond: Callable[[], Awaitable[Response]],
        missing_seconds: float | None = None,
    ) -> Response:
        """Respond to a request, or give the answer of the first request with its key.

        ``missing_seconds`` is for how long a repeat's answer has been missing; None if the request
        is no repeat, or may be executed twice. If answers of that
        time are no longer kept, ``OutcomeUnknown`` is raised, and the request is not executed.
        """
        now = self._clock()
        self._forget_old(now - KEPT_SECONDS)
        entry = self._answers.get(key)
        if entry is not None:
            return await entry.answer()
        if missing_seconds is not None and now - missing_seconds <= self._forgotten:
            raise OutcomeUnknown(
                "the answer to this request was lost, and the node no longer has it: check "
                "whether it was executed, or use an idempotency key."
            )
        entry = self._answers[key] = _Entry(now)
        try:
            # A server does not cancel a request whose connection breaks.
            response = await respond()
        except BaseException as error:
            entry.end(_lost(error))
            raise
        self._bytes += len(response.body)
        entry.end(response)
        return response

    def _forget_old(self, oldest: float) -> None:
        while self._answers:
            key, entry = next(iter(self._answers.items()))
            is_over = entry.arrived < oldest
            is_too_much = len(self._answers) > MAX_ANSWERS or self._bytes > MAX_BYTES
            if not (is_over or is_too_much) or entry.outcome is None:
                return
            del self._answers[key]
            if isinstance(entry.outcome, Response):
                self._bytes -= len(entry.outcome.body)
            self._forgotten = entry.arrived


class _Entry:
    """A request that runs, or has been answered."""

    __slots__ = ("_ended", "arrived", "outcome")

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self.outcome: Response | Exception | None = None
        # Made when a repeat waits for the answer, which is rare.
        self._ended: asyncio.Event | None = None

    async def answer(self) -> Response:
        """The answer, as soon as there is one."""
        if self.outcome is None:
            if self._ended is None:
                self._ended = asyncio.Event()
            await self._ended.wait()
        assert self.outcome is not None
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def end(self, outcome: Response | Exception) -> None:
        self.outcome = outcome
        if self._ended is not None:
            self._ended.set()


def _lost(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    return OutcomeUnknown(
        "the node stopped while it executed this request: check whether it was executed, or use "
        "an idempotency key."
    )
