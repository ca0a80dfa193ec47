"""Retry: which errors of a task are worth another attempt, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.model.queues.settings import Backoff
from headrace.model.times import delay_ms
from headrace.worker.items import Item

Delays = Backoff | Callable[[Item, BaseException], float | None]
Errors = type[BaseException] | tuple[type[BaseException], ...]


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a task's call that fails.

    >>> Retry(max_attempts=5, backoff=Backoff(first="10s"), on=IOError, give_up=FileNotFoundError)

    ``max_attempts`` is how many times it is claimed before it is dead, -1 without end. ``backoff``
    is the wait in between, as in ``@app.task``. ``on`` are the errors worth another attempt, all
    unless given; ``give_up`` are those that are not, and count first: such a call is dead
    immediately. An error with an attribute ``retry_after``, in seconds or as a timedelta, says
    itself how long to wait.
    """

    max_attempts: int | None = None
    backoff: Delays | None = None
    on: Errors = BaseException
    give_up: Errors = ()

    def __post_init__(self) -> None:
        for option, errors in (("on", self.on), ("give_up", self.give_up)):
            if not _are_errors(errors):
                raise InvalidOption(
                    f"retry.{option} is {shown(errors)}: use a class of exceptions, or a tuple.",
                    option=option,
                )

    def gives_up(self, error: BaseException) -> bool:
        """Whether no other attempt is worth it."""
        kind = type(error)
        return issubclass(kind, self.give_up) or not issubclass(kind, self.on)

    @staticmethod
    def delay_of(error: BaseException) -> float | None:
        """The seconds that an error asks for; None if it does not, or not in a form we know."""
        wanted: Any = getattr(error, "retry_after", None)
        if isinstance(wanted, bool) or not isinstance(wanted, int | float | timedelta):
            return None
        try:
            return delay_ms("retry_after", wanted) / 1000
        except InvalidOption:
            return None


def check_retry(retry: object, max_attempts: object, backoff: object) -> None:
    """A policy says all of it, or the options of the task do."""
    if retry is None:
        return
    if not isinstance(retry, Retry):
        raise InvalidOption(
            f"retry is {shown(retry)}: use Retry(max_attempts=..., backoff=...).", option="retry"
        )
    for option, twice in (("max_attempts", max_attempts), ("backoff", backoff)):
        if twice is not None:
            raise InvalidOption(
                f"{option} is part of retry here: use retry=Retry({option}=...).", option=option
            )


def _are_errors(errors: object) -> bool:
    found = errors if isinstance(errors, tuple) else (errors,)
    return all(isinstance(each, type) and issubclass(each, BaseException) for each in found)
