"""Content digests as subjects: equal content, equal subject."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from headrace.model.queues.items import BYTES


def digest(content: Any) -> str | None:
    """The digest of a payload before its push.

    None for a payload that cannot be pushed anyway: the push says why.
    """
    if isinstance(content, (bytes, bytearray, memoryview)):
        return hashlib.blake2b(bytes(content), digest_size=20, person=b"bytes").hexdigest()
    try:
        text = msgspec.json.encode(content, order="sorted")
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return hashlib.blake2b(text, digest_size=20, person=b"json").hexdigest()


def digest_of(payload: str, format: int) -> str | None:
    """The digest of a stored payload."""
    return digest(base64.b64decode(payload) if format == BYTES else msgspec.json.decode(payload))
