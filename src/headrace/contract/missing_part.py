"""Parts that a driver lacks: every use of one is refused with an error that names it."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar, cast

from headrace.contract.values import ALL_PARTS
from headrace.errors import UnsupportedStore

T = TypeVar("T")


class MissingPart:
    """Stands for a part that a driver lacks.

    Building an operation of it raises ``UnsupportedStore``, so that nothing is sent to the store.
    """

    def __init__(self, part: str, driver: str) -> None:
        self._part = part
        self._driver = driver

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedStore(
            f"the {self._driver} store has no {self._part}: use a store with "
            f"{self._part!r} in hr.capabilities.parts.",
            part=self._part,
        )


def add_missing_parts(store: Any) -> None:
    """Let a store, or a session, refuse the use of parts that its driver lacks."""
    for part in ALL_PARTS - store.capabilities.parts:
        setattr(store, part, MissingPart(part, store.name))


def has_part(store: Any, part: str) -> bool:
    """Whether a store, or a session, has a part."""
    return not isinstance(getattr(store, part), MissingPart)


def noun(store: Any, part: str, value: T) -> T:
    """What a client offers of a part; if the driver lacks the part, an object that says so."""
    return value if has_part(store, part) else cast("T", getattr(store, part))
