"""The JSON of answers: times as RFC 3339, key-values as requests have them."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.model.query.key_values import KeyValues
from headrace.node.resources.key_values import described


def _encode_other(value: Any) -> Any:
    if isinstance(value, KeyValues):
        return described(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


encode = msgspec.json.Encoder(enc_hook=_encode_other).encode
