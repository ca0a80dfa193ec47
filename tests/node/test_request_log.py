"""Running requests and recent answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.errors import OutcomeUnknown
from headrace.node import request_log
from headrace.node.http import Response
from headrace.node.request_log import RequestKey, RequestLog


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def key(number: int) -> RequestKey:
    return ("local", "queues.push", f"{number:032x}")


def once(text: str) -> Callable[[], Awaitable[Response]]:
    """A response that can be made only once."""
    made: list[str] = []

    async def respond() -> Response:
        assert not made
        made.append(text)
        return Response(text.encode())

    return respond


class TestRequestLog:
    async def test_a_repeat_gets_the_first_answer(self) -> None:
        log = RequestLog()
        respond = once("a")
        first = await log.answer(key(1), respond)
        assert await log.answer(key(1), respond, 0.1) is first

    async def test_a_repeat_waits_for_a_request_that_runs(self) -> None:
        log = RequestLog()
        go_on = asyncio.Event()

        async def respond() -> Response:
            await go_on.wait()
            return Response(b"a")

        first = asyncio.ensure_future(log.answer(key(1), respond))
        await asyncio.sleep(0)
        again = asyncio.ensure_future(log.answer(key(1), once("b"), 0.1))
        await asyncio.sleep(0)
        go_on.set()
        assert (await first).body == (await again).body == b"a"

    async def test_nobody_can_tell_what_became_of_a_cancelled_request(self) -> None:
        """A node that is stopped by force cancels its requests. The repeat is not executed."""
        log = RequestLog()
        first = asyncio.ensure_future(log.answer(key(1), asyncio.Event().wait))
        await asyncio.sleep(0)
        again = asyncio.ensure_future(log.answer(key(1), once("b"), 0.1))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(OutcomeUnknown):
            await again
        with pytest.raises(asyncio.CancelledError):
            await first

    async def test_an_error_goes_to_the_repeat_as_well(self) -> None:
        log = RequestLog()

        async def respond() -> Response:
            raise ZeroDivisionError

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await log.answer(key(1), respond)

    async def test_answers_are_kept_for_two_minutes(self) -> None:
        log = RequestLog(clock=(clock := Time()))
        await log.answer(key(1), once("a"))
        clock.now = 119.0
        assert (await log.answer(key(1), once("b"), 119.0)).body == b"a"
        clock.now = 121.0
        with pytest.raises(OutcomeUnknown):
            await log.answer(key(1), once("b"), 121.0)

    async def test_a_repeat_of_a_request_that_never_arrived_is_executed(self) -> None:
        log = RequestLog(clock=(clock := Time()))
        await log.answer(key(1), once("a"))
        clock.now = 125.0
        assert (await log.answer(key(2), once("b"), 3.0)).body == b"b"

    async def test_too_many_answers_push_out_the_oldest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(request_log, "MAX_ANSWERS", 3)
        log = RequestLog(clock=(clock := Time()))
        for number in range(6):
            clock.now = float(number)
            await log.answer(key(number), once(str(number)))
        assert (await log.answer(key(5), once("again"), 0.0)).body == b"5"
        with pytest.raises(OutcomeUnknown):
            await log.answer(key(0), once("again"), 5.0)

    async def test_large_answers_push_out_the_oldest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(request_log, "MAX_BYTES", 10)
        log = RequestLog(clock=(clock := Time()))
        await log.answer(key(0), once("123456"))
        clock.now = 1.0
        await log.answer(key(1), once("123456"))
        clock.now = 2.0
        assert (await log.answer(key(1), once("again"), 1.0)).body == b"123456"
        with pytest.raises(OutcomeUnknown):
            await log.answer(key(0), once("again"), 2.0)
