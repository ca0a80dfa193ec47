"""What a scene is, and who plays it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from headrace.testing import faces

Client = Any
"""A client with blocking methods, over ``connect`` or over ``aconnect``."""


@contextmanager
def opened(face: faces.FaceName, url: str, **options: Any) -> Iterator[Client]:
    """A client of either kind, for blocking use."""
    client = faces.connect(face, url, **options)
    try:
        yield client
    finally:
        faces.shut(client)


class Scene(NamedTuple):
    """``act`` performs one operation named ``operation``; ``effect`` is all that shows of it."""

    operation: str
    prepare: Callable[[Client, str], None]
    act: Callable[[Client, str], list[str]]
    effect: Callable[[Client, str], list[str]]
