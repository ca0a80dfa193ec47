"""Renewal after a fork: the child inherits locks of threads that it does not have.

Objects with locks, waiters or connections register a function that resets them. The functions run
in the child before ``fork`` returns, while there is one thread. ``subprocess`` needs none of
this: it replaces the program immediately.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def renew_in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew(owner)`` in each child of this process, as long as the owner exists."""
    _renewals[owner] = renew


class ModuleLock:
    """The lock of a module's variables: ``with _lock.lock:``."""

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self, ModuleLock._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()


def _in_child() -> None:
    for owner, renew in list(_renewals.items()):
        renew(owner)


if not hasattr(os, "register_at_fork"):
    raise ImportError("Headrace needs Linux or macOS. On Windows run it in WSL or in a container.")
os.register_at_fork(after_in_child=_in_child)
