"""How long a follower waits after a failure, and which failures it waits out."""

from __future__ import annotations

import logging

from headrace.errors import HeadraceError, ProcDisabled, StoreError

MIN_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 5.0

_log = logging.getLogger("headrace")


class Retries:
    """The pauses between the attempts of one run: they grow until an attempt succeeds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reset()

    def reset(self) -> None:
        """An attempt succeeded: the next failure is the first again."""
        self._seconds = MIN_RETRY_SECONDS

    def pause_after(self, error: HeadraceError) -> float:
        """Log an error that may pass, and return the seconds to wait; raise any other."""
        if not (error.retryable or isinstance(error, StoreError | ProcDisabled)):
            raise error
        _log.warning("follower %r waits: %s", self._name, error, extra={"action": "follow"})
        seconds, self._seconds = self._seconds, min(self._seconds * 2, MAX_RETRY_SECONDS)
        return seconds
