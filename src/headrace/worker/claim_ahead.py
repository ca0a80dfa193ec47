"""When a worker claims ahead, while items still wait to be started, and how many.

Nothing is claimed while an item in the buffer waits: at most a chunk is kept from other workers.
Except where handlers finish a chunk in less time than the claim of the next one takes. Then it may
be claimed meanwhile, or several in one claim if handlers are even faster, and a few more while
claims are being confirmed, as other workers would have to wait for that, too. A chunk of one means
that the worker shall keep nothing, so it never claims ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sized

from headrace.worker.confirmation import ClaimConfirmer
from headrace.worker.in_flight import monotonic

NEVER = float("-inf")
# So many chunks may be claimed in one claim, and wait for their confirmation.
MAX_CHUNKS = 3


class ClaimAhead:
    """Compares the speed of handlers with that of claims."""

    def __init__(self, buffer: Sized, confirmer: ClaimConfirmer, *, is_served: bool) -> None:
        self.is_wanted = False
        """Whether handlers wait for the next chunk most of the time."""
        self._buffer = buffer
        self._confirmer = confirmer
        # Where no other process does the work, a claim ahead would cost handlers their time.
        self._is_served = is_served
        self._claimed_at = NEVER
        self._chunks = 1
        # Whether enough chunks wait for their confirmation, and how long confirmations had taken
        # at the last claim.
        self._has_enough = False
        self._confirm_seconds = 0.0

    @property
    def is_steady(self) -> bool:
        """Whether the last claim brought all that it asked for, so that the next one may."""
        return self._claimed_at > NEVER

    def reset(self) -> None:
        """Handlers have waited for all that was claimed: begin with one chunk again."""
        self._chunks = 1

    def stop(self) -> None:
        """Do not claim ahead before the next comparison."""
        self.is_wanted = False

    def next_chunks(self, chunk: int, is_idle: Callable[[], bool]) -> int:
        """How many chunks to claim now, 0 for none. Waits for a confirmation, if that many wait."""
        self.is_wanted = False
        if self._has_enough:
            self._confirmer.wait()
            self._claimed_at = monotonic()
            if not is_idle() or len(self._buffer) > (MAX_CHUNKS - 1) * chunk:
                return 0
        # If handlers still wait when these come, they were not enough.
        chunks, self._chunks = self._chunks, min(self._chunks + 1, MAX_CHUNKS)
        return chunks

    def compare(
        self, since: float, chunk: int, is_idle: Callable[[], bool], *, is_full: bool
    ) -> None:
        """Compare after a claim that was sent at ``since``: are the items of the last one begun,
        and did that take no longer than this claim and the confirmations?"""
        if not is_full or chunk == 1 or not self._is_served:
            self._claimed_at, self.is_wanted = NEVER, False
            return
        now = monotonic()
        self._has_enough = len(self._buffer) > (MAX_CHUNKS - 1) * chunk
        is_begun = not self._buffer or self._confirmer.is_under_way
        seconds = self._confirmer.seconds
        confirming, self._confirm_seconds = seconds - self._confirm_seconds, seconds
        is_faster = is_begun and since - self._claimed_at - confirming <= now - since + confirming
        self.is_wanted = is_faster and is_idle()
        self._claimed_at = now
