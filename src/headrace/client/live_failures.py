"""What live procs have in common in both colours: their timing, and failures of callbacks."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from headrace.errors import InvalidOption, NothingClaimed
from headrace.model.checks import called
from headrace.model.failures import words_of
from headrace.model.fields import shown
from headrace.model.topics.procs import DEFAULT_LEASE_MS

LEASE_MS = DEFAULT_LEASE_MS
MAINTENANCE_SECONDS = 30.0
FIRST_PAUSE = 0.05
MAX_PAUSE = 5.0
# How often a disabled proc is polled; a resume by this object needs no poll.
DISABLED_POLL_SECONDS = 1.0

OnError = Callable[[Exception], object] | None

_log = logging.getLogger("headrace")


class Failures:
    """What went wrong while a live proc called back: counted, reported, and waited out."""

    def __init__(self, name: str) -> None:
        self.count = 0
        self._name = name
        self._pause = FIRST_PAUSE

    def restore(self) -> None:
        """A claim was handled: the next failure is the first again."""
        self._pause = FIRST_PAUSE

    def add(self, error: BaseException, on_error: OnError) -> tuple[float, object]:
        """Count and report; how long to wait, and what ``on_error`` left to be awaited."""
        self.count += 1
        pause, self._pause = self._pause, min(self._pause * 2, MAX_PAUSE)
        return pause, self.report(error, on_error)

    def report(self, error: BaseException, on_error: OnError) -> object:
        """Call ``on_error``, or log where there is none."""
        if on_error is None:
            self._write("live proc %r: %s", error)
            return None
        try:
            return on_error(error)  # type: ignore[arg-type]  # users say Exception
        except BaseException as mistake:  # a failing on_error must not end the callbacks
            self.complain(mistake)
            return None

    def complain(self, mistake: BaseException) -> None:
        """Log what ``on_error`` raised."""
        self._write("live proc %r: its on_error raised %s", mistake)

    def _write(self, text: str, error: BaseException) -> None:
        # An odd exception, or a handler of logs that raises, must not end the callbacks.
        with contextlib.suppress(BaseException):
            _log.error(text, self._name, words_of(error), exc_info=error, extra={"action": "live"})


def no_claim(name: str) -> NothingClaimed:
    return NothingClaimed(
        f"live proc {shown(name)} has no claim at the moment: wait for its next records.",
        proc=name,
    )


def check_callbacks(callback: object, on_error: object) -> None:
    if callback is None:
        raise InvalidOption("callback is None: give a function.", option="callback")
    called("callback", callback)
    called("on_error", on_error)
