"""Whether a client works."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What a client is fit for."""

    FAILING = -1
    UNINITIALISED = 0
    READY = 1
