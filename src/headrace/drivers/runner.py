"""How a driver runs an operation: written once, for blocking and async callers alike.

A runner is a generator of *actions* (``Sleep``, and those that its driver adds). ``drive``
performs them in the calling thread, ``adrive`` on the event loop; neither decides anything.
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
MAX_DELAY_SECONDS = 1.0
DEFAULT_PATIENCE = 30.0
# Errors that Python raises when rows are missing or malformed. A subclass comes from elsewhere,
# such as a signal handler, and is raised unchanged.
_BARE = (IndexError, KeyError, ValueError)


class Sleep(msgspec.Struct, frozen=True):
    """Wait before trying again."""

    seconds: float


class TryAgain(Exception):
    """An attempt failed without effect; the caller gets ``error`` when patience ends."""

    def __init__(self, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.error = error


class InDoubt(TryAgain):
    """An attempt may have taken effect, and the operation is repeatable.

    If the repeat fails too, for any reason, the caller gets ``error``.
    """


class Collided(TryAgain):
    """An attempt aborted: others had locked the same rows in another order."""


class Probe(Protocol):
    """A hook for tests, called at each point where a crash may happen.

    ``point`` is the number of the step about to be sent, ``"commit"`` before COMMIT and
    ``"committed"`` after it. What it raises ends the operation there, as a crash would.
    """

    def __call__(self, operation: str, point: int | str) -> None: ...


def no_probe(operation: str, point: int | str) -> None:
    """The default: no crash."""


class Runner:
    """The shared half of a store: retries, telemetry, blocking and async execution."""

    name = "store"
    url = ""

    def __init__(self, *, patience: float = DEFAULT_PATIENCE) -> None:
        self.patience = patience
        self.probe: Probe = no_probe

    def attempt(self, op: Op[T]) -> Work[T]:
        """Try the operation once in its own transaction; raise ``TryAgain`` if a retry may help."""
        raise NotImplementedError  # not abstract: a driver may set it as an attribute

    def attempt_in_line(self, op: Op[T]) -> Work[T]:
        """Try again after a collision.

        A driver that can admits one such attempt at a time, so that the first in line succeeds.
        """
        return self.attempt(op)

    def perform(self, action: Any) -> Any:
        """Perform an action, blocking."""
        assert isinstance(action, Sleep)
        time.sleep(action.seconds)

    async def aperform(self, action: Any) -> Any:
        """Perform an action on the event loop."""
        assert isinstance(action, Sleep)
        await asyncio.sleep(action.seconds)

    def run(self, op: Op[T]) -> T:
        return self.drive(self.work(op))

    def drive(self, work: Work[T]) -> T:
        """Perform the actions of ``work``, blocking, and return its result."""
        return drive(work, self.perform)

    async def arun(self, op: Op[T]) -> T:
        return await adrive(self.work(op), self.aperform)

    def run_blocking(self, op: Op[T], attempt: Callable[[Op[T]], T]) -> T:
        """Run the operation by ``attempt``, a shorter path that blocks.

        If that fails and a retry may help, it counts as the first of the ordinary attempts.
        """
        begun = op.since
        if begun is None:
            begun = time.monotonic()
        else:
            op.give_up = begun + self.patience
        try:
            return attempt(op)
        except TryAgain as failure:
            failed = failure
        except (IndexError, KeyError, ValueError) as error:
            if type(error) not in _BARE:
                raise
            raise _unexpected(error) from error
        return self.drive(self.work(op, since=begun, failed=failed))

    def work(
        self, op: Op[T], *, since: float | None = None, failed: TryAgain | None = None
    ) -> Work[T]:
        """Attempt the operation until it succeeds, fails permanently, or patience ends.

        ``since`` is when the first attempt began, if one was made before; ``failed`` is its error.
        """
        op.accept()
        tally = _Tally(op.name, self.name)
        try:
            result = yield from self._persist(op, tally, since, failed)
        except BaseException as error:
            ours = _unexpected(error) if type(error) in _BARE else error
            tally.emit(ours)
            if ours is error:
                raise
            raise ours from error
        tally.emit(None)
        return result

    def _persist(
        self, op: Op[T], tally: _Tally, since: float | None, failed: TryAgain | None
    ) -> Work[T]:
        delay = FIRST_DELAY
        if since is None:
            since = op.since
        if since is None:
            since = time.monotonic()
        else:
            op.give_up = since + self.patience
        give_up = since + self.patience
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
                op.give_up = give_up
                if isinstance(failure, InDoubt):
                    doubt = failure.error
                if isinstance(failure, Collided):
                    attempt = self.attempt_in_line
                if time.monotonic() + delay > give_up:
                    raise doubt or failure.error from failure.__cause__
            except HeadraceError as refusal:
                if doubt is None:
                    raise
                # It may be refused only because the first run took effect.
                raise doubt from refusal
            # Half to full delay: clients that lost the same server do not all return together.
            yield Sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, MAX_DELAY_SECONDS)


def _unexpected(error: BaseException) -> StoreError:
    """The error for an operation that cannot interpret what it read from the tables."""
    return StoreError(
        f"Headrace's tables do not hold what they must ({type(error).__name__}: {error}): run "
        "headrace doctor, and restore what is missing from a backup. If it finds nothing, this is "
        "a mistake of Headrace's: please report it."
    )


class _Tally:
    """Counts and times one operation, and reports to telemetry."""

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


def drive(
    work: Work[T], perform: Callable[[Any], Any], interrupt: BaseException | None = None
) -> T:
    """Perform the actions of ``work``, blocking, and return its result."""
    try:
        action = next(work) if interrupt is None else work.throw(interrupt)
        while True:
            try:
                answer = perform(action)
            except BaseException as error:
                action = work.throw(error)
            else:
                action = work.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
    except BaseException as error:
        if work.gi_frame is None:  # type: ignore[attr-defined]  # a generator function made it
            raise
        # A signal handler raised it between two actions: the generator must clean up.
        return drive(work, perform, error)


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
