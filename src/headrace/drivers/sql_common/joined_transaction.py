"""The user's transaction that a session has joined, and whether it is still the same one."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import NotConnected

Current = Callable[[], object]
"""The open transaction of a connection, as an object that is compared by identity; None if no
transaction is open."""


class JoinedTransaction:
    """Refuses operations after the end of the transaction that the user gave to ``using``.

    The connection would begin another transaction for them, which may never be committed. psycopg
    and sqlite3 only say whether a transaction is open: with them, the session also works in the
    next transaction that the user has begun on the connection.
    """

    def __init__(self, current: Current) -> None:
        self._current = current
        self._joined = current()

    def check(self) -> None:
        """Raise if the transaction is over."""
        if self._joined is not None and self._current() is not self._joined:
            raise NotConnected(
                "this transaction is over: call using() again inside your next one, or use the client "
                "itself."
            )

    def note(self) -> None:
        """After an operation, which may have begun the transaction."""
        if self._joined is None:
            self._joined = self._current()
