"""The result of one step of a proc."""

from __future__ import annotations

from typing import Literal, NamedTuple

from headrace.errors import HeadraceError


class Step(NamedTuple):
    """The result of one step.

    ``moved``: that many records were acked, ``dead`` of them as dead letters. ``empty``: there were none. ``busy``: another runner
    has the proc's claim. ``failed``: the first record failed for the ``tries``-th time. ``lost``:
    the claim expired and another runner has it.
    """

    kind: Literal["moved", "empty", "busy", "failed", "lost"]
    moved: int = 0
    error: str | None = None
    tries: int = 0
    dead: int = 0


class ClaimReleased(Exception):
    """The claim was released; ``reason`` is to be raised."""

    def __init__(self, reason: HeadraceError) -> None:
        super().__init__(str(reason))
        self.reason = reason
