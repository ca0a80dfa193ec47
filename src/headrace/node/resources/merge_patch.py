"""JSON merge patches (RFC 7396)."""

from __future__ import annotations

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """A value with a patch: its fields replace those of the value, null removes one."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found
