"""An operation that is yet to run, and its answer as the caller gets it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from headrace.contract.op import Op

T = TypeVar("T")
HOST = socket.gethostname()


class Request(msgspec.Struct, Generic[T], frozen=True):
    """An operation for the store, and what to make of its answer afterwards."""

    op: Op[Any]
    finish: Callable[[Any], T] | None = None


def caller() -> str:
    """The host and process that ask, for people."""
    return f"{HOST}/{os.getpid()}"
