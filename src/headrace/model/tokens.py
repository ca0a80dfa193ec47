"""Identities made by the client."""

from __future__ import annotations

import os
import threading
import time

from headrace.model.forks import renew_in_child


def claim_token() -> str:
    """128 random bits as hex: never a counter, since a relaxed claim can vanish in a crash
    and a counter would then repeat."""
    return os.urandom(16).hex()


class BatchIds:
    """Unique UUIDs (version 7) that increase within this process.

    They increase so that they order the rows of one transaction, and so that inserts into
    indexes stay local.
    """

    def __init__(self) -> None:
        self._last = 0
        self._renew()
        renew_in_child(self, BatchIds._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            # 48 bits of milliseconds and a counter of 12 bits that runs over into them.
            self._last = max(self._last + 1, (time.time_ns() // 1_000_000) << 12)
            ordered = self._last
        head, count = f"{ordered >> 12:012x}", f"{ordered & 0xFFF:03x}"
        tail = os.urandom(8).hex()
        return f"{head[:8]}-{head[8:]}-7{count}-8{tail[:3]}-{tail[3:15]}"


batch_id = BatchIds()
