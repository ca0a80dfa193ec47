"""Routes of Willow's API: each is one value that registers its paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.node.resources.endpoint import ApiCall
from headrace.node.resources.long_polls import checked_wait

Call = ApiCall[Any, None]
"""A request of Willow's API; its body is what a parser made of the JSON."""

Handle = Callable[[Call], Awaitable[Any]]

Way = tuple[str, str]
"""A method and a path."""


@dataclass(frozen=True, kw_only=True)
class WillowRoute:
    """One thing that Willow's API can do, with all ways to ask for it.

    What its handler returns is the JSON of the answer, with ``status``; None is an empty answer.
    ``keeps_work`` says that it ends claimed work, or keeps it claimed.
    """

    ways: tuple[Way, ...]
    handle: Handle
    has_body: bool = True
    status: int = 200
    keeps_work: bool = False


def wait_of(call: Call) -> float | None:
    """How long a request waits: for as long as its client stays, unless ``?wait=`` says less.

    Willow has no such option. With it a client need not leave when an item may be on its way.
    """
    text = call.request.query.get("wait")
    if text is None:
        return None
    try:
        return checked_wait(float(text))
    except ValueError:
        raise InvalidOption(
            f"wait is {shown(text)}: use a number of seconds.", option="wait"
        ) from None
