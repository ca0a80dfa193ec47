"""Executes one operation on a connection."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.contract.op import Steps
from headrace.drivers.runner import Probe, no_probe
from headrace.drivers.sql_common.statements import Many, NoReply, Notify, RequireFlush, Statement

T = TypeVar("T")


class FlushRequired(Exception):
    """A relaxed operation found that it must be flushed after all."""


class Execution:
    """One run of an operation on a connection; ``announced`` has the topics with news."""

    __slots__ = ("_clock", "_connection", "_is_relaxed", "_name", "_point", "_probe", "announced")

    def __init__(
        self,
        connection: sqlite3.Connection,
        name: str,
        probe: Probe,
        *,
        is_relaxed: bool,
        clock: Callable[[], int] | None,
    ) -> None:
        self._connection = connection
        self._name = name
        self._probe = probe
        self._is_relaxed = is_relaxed
        self._clock = clock
        self._point = 0
        self.announced: set[str] = set()

    def moment(self) -> int:
        """The current time. Cheaper than a statement, and equal: SQLite reads the same clock, and
        truncates to milliseconds, too."""
        return self._clock() if self._clock else time.time_ns() // 1_000_000

    def query(self, text: str, parameters: dict[str, Any]) -> list[Any]:
        """Execute one statement with SQLite parameters; returns its rows."""
        if self._probe is not no_probe:
            self._pass()
        return self._connection.execute(text, parameters).fetchall()

    def execute(self, text: str, parameters: dict[str, Any]) -> sqlite3.Cursor:
        """Execute one statement without rows; returns the cursor."""
        if self._probe is not no_probe:
            self._pass()
        return self._connection.execute(text, parameters)

    def execute_many(self, text: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute one statement for many rows of parameters."""
        if self._probe is not no_probe:
            self._pass()
        self._connection.executemany(text, rows)

    def follow(self, steps: Steps[T]) -> T:
        """Run the steps of an operation and serve what they yield."""
        answer: Any = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            answer = None
            # The most frequent request comes first.
            if isinstance(request, Statement):
                self._pass()
                answer = rows_of(self._connection, request)
            elif isinstance(request, Notify):
                self.announced |= request.topics
            elif isinstance(request, RequireFlush):
                if self._is_relaxed:
                    raise FlushRequired
            else:
                self._pass()
                answer = self._answer(request)

    def _answer(self, request: Any) -> Any:
        if isinstance(request, Many):
            return rows_of(self._connection, request)
        statements = request.statements if isinstance(request, NoReply) else request
        return [rows_of(self._connection, statement) for statement in statements]

    def _pass(self) -> None:
        """A crash point for tests."""
        if self._probe is not no_probe:
            self._probe(self._name, self._point)
            self._point += 1


def as_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters for SQLite: lists become JSON text."""
    for value in parameters.values():
        if type(value) is list:
            break
    else:
        return parameters
    return {
        name: msgspec.json.encode(value).decode() if isinstance(value, list) else value
        for name, value in parameters.items()
    }


def rows_of(connection: sqlite3.Connection, statement: Statement | Many) -> list[sqlite3.Row]:
    """Execute a statement and fetch its rows, with any row factory."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    if not isinstance(statement, Many):
        if statement.as_stored:
            return _rows_as_stored(cursor, statement)
        return cursor.execute(statement.text, as_parameters(statement.parameters)).fetchall()
    if "returning" not in statement.text:
        cursor.executemany(statement.text, statement.rows)
        return []
    return [row for one in statement.rows for row in cursor.execute(statement.text, one)]


def _rows_as_stored(cursor: sqlite3.Cursor, statement: Statement) -> list[sqlite3.Row]:
    connection = cursor.connection
    before, connection.text_factory = connection.text_factory, bytes
    try:
        return cursor.execute(statement.text, statement.parameters).fetchall()
    finally:
        connection.text_factory = before


def executions(statement: Statement | Many) -> list[dict[str, Any]]:
    """The parameters of a statement, once for each execution."""
    if isinstance(statement, Many):
        return [dict(row) for row in statement.rows]
    return [as_parameters(statement.parameters)]
