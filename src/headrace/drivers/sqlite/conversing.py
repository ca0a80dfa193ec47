"""What one operation says to a connection, and hears."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headrace.contract.op import Steps
from headrace.drivers.relational.sql import Announce, Finally, Insist, Many, Statement
from headrace.drivers.running import Probe, no_probe
from headrace.drivers.sqlite.connections import rows_of

T = TypeVar("T")


class InsistedError(Exception):
    """A relaxed operation found that it must wait for the disk after all."""


class Conversation:
    """One run of an operation on a connection; ``announced`` is what it has news of."""

    __slots__ = ("_connection", "_is_relaxed", "_name", "_point", "_probe", "announced")

    def __init__(
        self, connection: sqlite3.Connection, name: str, probe: Probe, *, is_relaxed: bool
    ) -> None:
        self._connection = connection
        self._name = name
        self._probe = probe
        self._is_relaxed = is_relaxed
        self._point = 0
        self.announced: set[str] = set()

    def ask(self, text: str, parameters: dict[str, Any]) -> list[Any]:
        """Execute one statement, whose parameters are as SQLite takes them; its rows."""
        if self._probe is not no_probe:
            self._pass()
        return self._connection.execute(text, parameters).fetchall()

    def tell(self, text: str, parameters: dict[str, Any]) -> sqlite3.Cursor:
        """Execute one statement that has no rows to answer with; how it went."""
        if self._probe is not no_probe:
            self._pass()
        return self._connection.execute(text, parameters)

    def tell_many(self, text: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute one statement for each of many rows of parameters."""
        if self._probe is not no_probe:
            self._pass()
        self._connection.executemany(text, rows)

    def follow(self, steps: Steps[T]) -> T:
        """Do what the steps of an operation ask for."""
        answer: Any = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            answer = None
            # What there is most of comes first.
            if isinstance(request, Statement):
                self._pass()
                answer = rows_of(self._connection, request)
            elif isinstance(request, Announce):
                self.announced |= request.topics
            elif isinstance(request, Insist):
                if self._is_relaxed:
                    raise InsistedError
            else:
                self._pass()
                answer = self._answer(request)

    def _answer(self, request: Any) -> Any:
        if isinstance(request, Many):
            return rows_of(self._connection, request)
        statements = request.statements if isinstance(request, Finally) else request
        return [rows_of(self._connection, statement) for statement in statements]

    def _pass(self) -> None:
        """Here a crash may happen."""
        self._probe(self._name, self._point)
        self._point += 1
