"""A word when a topic's time has run away from the clock."""

from __future__ import annotations

import logging
import time

from headrace.contract.values import CommitOutcome, Committed

TOLERATED_MS = 60_000
QUIET_SECONDS = 60.0

_log = logging.getLogger("headrace")
_last_said: dict[str, float] = {}


def heed_clock(outcome: CommitOutcome) -> None:
    """Log a warning, once a minute and topic, if a commit had to be dated well ahead."""
    if not isinstance(outcome, Committed) or outcome.ahead_ms <= TOLERATED_MS:
        return
    topic = outcome.spans[0].topic
    now = time.monotonic()
    if now - _last_said.get(topic, -QUIET_SECONDS) < QUIET_SECONDS:
        return
    _last_said[topic] = now
    _log.warning(
        "topic %r is %d s ahead of the clock: a clock ran fast once, and records keep its time "
        "until the real time catches up",
        topic,
        outcome.ahead_ms // 1000,
        extra={"action": "clock_ahead", "topic": topic, "ahead_ms": outcome.ahead_ms},
    )
