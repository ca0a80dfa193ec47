"""Forks: SQLite connections are closed before one and opened again on both sides.

``subprocess`` does not come here: it replaces the program immediately.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """What can be closed during a fork."""

    def closed_for_fork(self) -> AbstractContextManager[None]:
        """Keep everything closed in the block."""
        ...


_guarded: WeakSet[Forkable] = WeakSet()
_under_way: list[ExitStack] = []


def guard(connections: Forkable) -> None:
    """Close these connections whenever this process forks."""
    _guarded.add(connections)


def _before() -> None:
    stack = ExitStack()
    for connections in list(_guarded):
        stack.enter_context(connections.closed_for_fork())
    _under_way.append(stack)


def _after() -> None:
    if _under_way:
        _under_way.pop().close()


# In the child too: both sides release the locks that were acquired for the fork.
os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
