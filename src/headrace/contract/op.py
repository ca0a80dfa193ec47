"""Operations: the unit of work of a store, and of a transaction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""A running operation: it yields requests that its driver understands, and receives the answers."""


Fast = Callable[..., Any]
"""A shorter body of an operation, in the terms of its driver: a function that returns steps on
PostgreSQL, a function of the connection on SQLite. Only that driver calls it."""


class Op(Generic[T]):
    """One operation that has not run yet: run it with ``store.run`` or ``store.arun``.

    It holds a factory of steps, not the steps themselves, so that a runner can start it
    again after a deadlock or a lost connection. One run of an operation is one
    transaction; every step is a point where a crash leaves nothing behind. Operations of
    one store compose: ``yield from op`` inside another operation's steps makes both one
    transaction.

    ``writes``      it changes something and needs a transaction.
    ``durable``     it is flushed before it is answered, however relaxed the store is.
    ``relaxed``     losing it in a crash is harmless, so it need not wait for a flush.
    ``repeatable``  running it twice gives the same answer and the same state, so a runner
                    that lost its connection at COMMIT may simply run it again.
    ``fast``        another body for a runner that runs this operation and nothing else in a
                    transaction. Where it is part of a larger one, its general steps run.
    """

    __slots__ = (
        "_general",
        "durable",
        "fast",
        "give_up",
        "name",
        "relaxed",
        "repeatable",
        "since",
        "was_run",
        "writes",
    )

    def __init__(
        self,
        name: str,
        general: Callable[[], Steps[T]],
        *,
        writes: bool = True,
        relaxed: bool = False,
        durable: bool = False,
        repeatable: bool = False,
        fast: Fast | None = None,
    ) -> None:
        self.name = name
        self.writes = writes
        self.relaxed = relaxed
        self.durable = durable
        self.repeatable = repeatable
        self._general = general
        self.fast = fast
        self.was_run = False
        # When its caller began to wait, by ``time.monotonic``, if that was before the run.
        self.since: float | None = None
        # When the runner's patience with it ends; None if that begins with the first attempt.
        self.give_up: float | None = None

    def __iter__(self) -> Steps[T]:
        self.was_run = True
        return self._general()

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def accept(self) -> None:
        """Mark it as accepted by a runner, so that no warning says it was never run."""
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
