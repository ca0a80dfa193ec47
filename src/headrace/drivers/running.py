"""How a driver runs an operation: written once, for blocking and async callers alike.

A runner is a generator of *actions* (sleep, and whatever its driver adds). ``drive``
performs them blocking, ``adrive`` performs them on the event loop; neither decides
anything.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeVar

import msgspec

from headrace.contract.op import Op
from headrace.errors import HeadraceError, OutcomeUnknown, StoreError
from headrace.telemetry.events import Event, emit, is_heard

T = TypeVar("T")
Work = Generator[Any, Any, T]

FIRST_DELAY = 0.01
LONGEST_DELAY = 1.0
DEFAULT_PATIENCE = 30.0


class Sleep(msgspec.Struct, frozen=True):
    """Wait before trying again."""

    seconds: float


class TryAgain(Exception):
    """An attempt failed without effect; ``error`` is what the caller gets when patience ends."""

    def __init__(self, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.error = error


class InDoubt(TryAgain):
    """An attempt may have taken effect, and the operation is one that may be repeated.

    If the repeat does not answer either, the caller gets ``error``, whatever the reason.
    """


class Collided(TryAgain):
    """An attempt met others that wanted the same things in another order, and gave way."""


class Probe(Protocol):
    """A hook for tests, called at each point where a crash may happen.

    ``point`` is the number of the step about to be sent, ``"commit"`` before COMMIT and
    ``"committed"`` after it. What it raises ends the operation there, as a crash would.
    """

    def __call__(self, operation: str, point: int | str) -> None: ...


def no_probe(operation: str, point: int | str) -> None:
    """Nobody wants a crash."""


class Runner:
    """The shared half of a store: retries, telemetry, blocking and async execution."""

    name = "store"
    url = ""

    def __init__(self, *, patience: float = DEFAULT_PATIENCE) -> None:
        self.patience = patience
        self.probe: Probe = no_probe

    def attempt(self, op: Op[T]) -> Work[T]:
        """Try the operation once in a transaction of its own; ``TryAgain`` if that may help."""
        raise NotImplementedError

    def attempt_in_line(self, op: Op[T]) -> Work[T]:
        """Try again after a collision, one at a time if the driver can, so that whoever is first
        in line gets through in the end."""
        return self.attempt(op)

    def perform(self, action: Any) -> Any:
        """Do an action, blocking."""
        assert isinstance(action, Sleep)
        time.sleep(action.seconds)

    async def aperform(self, action: Any) -> Any:
        """Do an action on the event loop."""
        assert isinstance(action, Sleep)
        await asyncio.sleep(action.seconds)

    def run(self, op: Op[T]) -> T:
        return drive(self.work(op), self.perform)

    async def arun(self, op: Op[T]) -> T:
        return await adrive(self.work(op), self.aperform)

    def run_at_once(self, op: Op[T], attempt: Callable[[Op[T]], T]) -> T:
        """Run it by a shorter way first, which blocks; if that fails and trying again may help, it
        was the first of the ordinary attempts."""
        begun = time.monotonic()
        try:
            return attempt(op)
        except TryAgain as failure:
            failed = failure
        return drive(self.work(op, since=begun, failed=failed), self.perform)

    def work(
        self, op: Op[T], *, since: float | None = None, failed: TryAgain | None = None
    ) -> Work[T]:
        """Attempt the operation until it succeeds, fails for good, or patience ends.

        ``since`` is when somebody began to try, if that was before, and how it ``failed``.
        """
        op.accept()
        tally = _Tally(op.name, self.name)
        try:
            result = yield from self._persist(op, tally, since, failed)
        except BaseException as error:
            tally.emit(error)
            raise
        tally.emit(None)
        return result

    def _persist(
        self, op: Op[T], tally: _Tally, since: float | None, failed: TryAgain | None
    ) -> Work[T]:
        delay = FIRST_DELAY
        give_up = (time.monotonic() if since is None else since) + self.patience
        doubt: HeadraceError | None = None
        attempt = self.attempt
        while True:
            tally.attempts += 1
            try:
                if failed is not None:
                    raise failed
                return (yield from attempt(op))
            except TryAgain as failure:
                failed = None
                if isinstance(failure, InDoubt):
                    doubt = failure.error
                if isinstance(failure, Collided):
                    attempt = self.attempt_in_line
                if time.monotonic() + delay > give_up:
                    raise doubt or failure.error from failure.__cause__
            except HeadraceError as refusal:
                if doubt is None:
                    raise
                # Refused perhaps only because the first run did take effect.
                raise doubt from refusal
            # Half to full delay: many clients that lost one server do not return as one.
            yield Sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, LONGEST_DELAY)


class _Tally:
    """Counts and times one operation, and tells telemetry."""

    def __init__(self, operation: str, store: str) -> None:
        self.operation = operation
        self.store = store
        self.attempts = 0
        self.started = time.perf_counter()

    def emit(self, error: BaseException | None) -> None:
        if not is_heard():
            return
        emit(
            Event(
                operation=self.operation,
                store=self.store,
                outcome=_outcome(error),
                seconds=time.perf_counter() - self.started,
                attempts=self.attempts,
                code=getattr(error, "code", type(error).__name__) if error else None,
            )
        )


def _outcome(error: BaseException | None) -> Any:
    if error is None:
        return "ok"
    if isinstance(error, OutcomeUnknown):
        return "unknown"
    is_refusal = isinstance(error, HeadraceError) and not isinstance(error, StoreError)
    return "refused" if is_refusal else "failed"


def drive(work: Work[T], perform: Callable[[Any], Any]) -> T:
    """Perform the actions of ``work``, blocking, and return its result."""
    try:
        action = next(work)
        while True:
            try:
                answer = perform(action)
            except BaseException as error:
                action = work.throw(error)
            else:
                action = work.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic


async def adrive(work: Work[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    """Perform the actions of ``work`` on the event loop and return its result."""
    try:
        action = next(work)
        while True:
            try:
                answer = await perform(action)
            except BaseException as error:
                action = work.throw(error)
            else:
                action = work.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
