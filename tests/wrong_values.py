"""Documents that differ from a good one in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (
    *(None, True, -1, 2**62, 2**70, 0.5, "", "a", "x" * 300, "\0", "_reserved", "\ud800"),
    *([], [None], [[]], {}, {"a": 1}, [1, "a", {}]),
)


def spoiled(value: Any) -> Iterator[Any]:
    """A document with each of its values missing, or replaced by each wrong one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {one: value[one] for one in value if one != key}
            for wrong in (*WRONG, *spoiled(inner)):
                yield value | {key: wrong}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            for wrong in (*WRONG, *spoiled(inner)):
                yield [*value[:number], wrong, *value[number + 1 :]]
