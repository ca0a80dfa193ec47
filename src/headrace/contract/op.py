"""Operations: the unit of work of a store, and of a transaction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""A running operation: it yields what its driver understands and is sent the answers."""


class Direct(msgspec.Struct, Generic[T], frozen=True):
    """Steps as one function of whatever its driver talks through.

    For operations so short that handing statements to and fro would cost as much as they do.
    """

    do: Callable[[Any], T]


Alone = Callable[[], Steps[T]] | Direct[T]
"""Other steps for an operation that has a transaction to itself."""


class Op(Generic[T]):
    """One operation that has not run yet: run it with ``store.run`` or ``store.arun``.

    It holds a factory of steps, not the steps themselves, so that a runner can start it
    again after a deadlock or a lost connection. One run of an operation is one
    transaction; every step is a point where a crash leaves nothing behind. Operations of
    one store compose: ``yield from op`` inside another operation's steps makes both one
    transaction.

    ``writes``      it changes something and needs a transaction.
    ``durable``     it is on disk before it is answered, however relaxed the store is.
    ``relaxed``     losing it in a crash is harmless, so it need not wait for the disk.
    ``repeatable``  running it twice gives the same answer and the same state, so a runner
                    that lost its connection at COMMIT may simply run it again.
    ``alone``       other steps for a runner that runs this operation and nothing else in a
                    transaction; what composes it uses the ordinary ones. ``direct`` if they
                    are one function.
    """

    __slots__ = (
        "_alone",
        "_steps",
        "direct",
        "durable",
        "name",
        "relaxed",
        "repeatable",
        "was_run",
        "writes",
    )

    def __init__(
        self,
        name: str,
        steps: Callable[[], Steps[T]],
        *,
        writes: bool = True,
        relaxed: bool = False,
        durable: bool = False,
        repeatable: bool = False,
        alone: Alone[T] | None = None,
    ) -> None:
        self.name = name
        self.writes = writes
        self.relaxed = relaxed
        self.durable = durable
        self.repeatable = repeatable
        self._steps = steps
        self.direct = alone.do if isinstance(alone, Direct) else None
        self._alone = steps if alone is None or isinstance(alone, Direct) else alone
        self.was_run = False

    def __iter__(self) -> Steps[T]:
        self.accept()
        return self._steps()

    def alone(self) -> Steps[T]:
        """The steps for a transaction of its own."""
        self.accept()
        return self._alone()

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def accept(self) -> None:
        """A runner has taken it: whatever becomes of it now is not forgotten work."""
        self.was_run = True

    def __del__(self) -> None:
        # A half-built Op (its __init__ raised) has no flag and was never meant to run.
        if not getattr(self, "was_run", True):
            warnings.warn(
                f"operation {self.name!r} was built but never run",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )
