"""Identities made by the client."""

from __future__ import annotations

import secrets
import time


def claim_token() -> str:
    """128 random bits as hex: never a counter, since a relaxed claim can vanish in a crash
    and a counter would then repeat."""
    return secrets.token_hex(16)


def batch_id() -> str:
    """A UUID that nobody else makes, roughly ordered by time so that indexes stay local."""
    raw = f"{time.time_ns() // 1_000_000:012x}7{secrets.token_hex(10)[1:]}"
    return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
