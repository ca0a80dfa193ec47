"""Identities made by the client."""

from __future__ import annotations

import os
import threading
import time


def claim_token() -> str:
    """128 random bits as hex: never a counter, since a relaxed claim can vanish in a crash
    and a counter would then repeat."""
    return os.urandom(16).hex()


class BatchIds:
    """UUIDs (version 7) that nobody else makes, rising within this process.

    They rise so that rows made in one transaction can be put in order by them, and so that
    indexes stay local.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> str:
        with self._lock:
            # 48 bits of milliseconds and a counter of 12 bits that runs over into them.
            self._last = max(self._last + 1, (time.time_ns() // 1_000_000) << 12)
            ordered = self._last
        head, count = f"{ordered >> 12:012x}", f"{ordered & 0xFFF:03x}"
        tail = os.urandom(8).hex()
        return f"{head[:8]}-{head[8:]}-7{count}-8{tail[:3]}-{tail[3:15]}"


batch_id = BatchIds()
