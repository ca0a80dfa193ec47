"""Wake-ups on PostgreSQL: NOTIFY, when a client listens.

A waiter has its own connection for LISTEN, and a row that registers it. Behind a pooler in
transaction mode LISTEN receives nothing, so a waiter also polls every quarter of a second. A
waiter that waits for longer sends itself a notification through another connection. Once it has
received that, it polls less often.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from headrace.drivers.notifier import NotifierWaiter, shared_notifier
from headrace.drivers.postgres.round_trip import send
from headrace.drivers.sql_common.statements import Statement
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

TTL_MS = 60_000
MAX_PAYLOAD_BYTES = 7_000
RENEW_SECONDS = TTL_MS / 3000
PROVE_AFTER = 2.0
PROVE_AGAIN = 600.0
HINT_SECONDS = 1.0
"""How long a server may be silent here: nothing depends on hints, and callers wait."""


class PostgresNotify:
    """Notifies waiters, and makes them."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._waiters = shared_notifier(f"{store.connections.conninfo} {store.schema}")
        self.channel = f"headrace_{store.schema}"
        self.is_hinting = True

    def notifications(self, topics: Iterable[str]) -> Sequence[Statement]:
        """The statement that notifies other processes when the transaction is committed."""
        if not self.is_hinting:
            return ()
        names = "\n".join(topics)
        payload = names if len(names.encode()) <= MAX_PAYLOAD_BYTES else ""
        return (self._store.sql.notify(channel=self.channel, topics=payload),)

    def notify(self, topics: Collection[str]) -> None:
        """Notify the waiters of this process."""
        if topics and self.is_hinting:
            self._waiters.notify(topics)

    def waiter(self, topic: str) -> NotifierWaiter:
        """A waiter for records of a topic."""
        if not self.is_hinting:
            return NotifierWaiter(shared_notifier("no store"), topic, None)
        return NotifierWaiter(
            self._waiters, topic, lambda: Listener(self._store, self.channel, topic)
        )


class Listener:
    """A connection with LISTEN."""

    def __init__(self, store: PostgresStore, channel: str, topic: str) -> None:
        self._store = store
        self._sql = store.sql
        self._channel = channel
        self._id = batch_id()
        self._proof = f"proof/{self._id}".encode()
        self._prove_at = time.monotonic() + PROVE_AFTER
        self._is_proven = False
        # Notifications that the library has read while it waited for something else.
        self._overheard: list[bytes] = []
        self._topic = topic.encode()
        self._renew_at = 0.0
        try:
            self._connection = store.connections.connect(time.monotonic() + HINT_SECONDS)
            self._connection.limit = HINT_SECONDS
            self._connection.add_notify_handler(self._overhear)
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        self.drain()

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def is_sure(self) -> bool:
        """Whether LISTEN is proven to work and the waiter's row is current.

        Writers do not notify a waiter whose row has expired.
        """
        is_known = time.monotonic() < self._renew_at + RENEW_SECONDS
        return self._is_proven and is_known

    def drain(self) -> bool:
        words = []
        try:
            # Cheaper than the library's way; waiters wait for this.
            self._connection.pgconn.consume_input()
            while notification := self._connection.pgconn.notifies():
                words.append(notification.extra)
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        is_ours = self._hear(words)
        return self.keep() or is_ours

    def keep(self) -> bool:
        now = time.monotonic()
        try:
            if now > self._renew_at:
                send(self._connection, (self._sql.register_waiter(id=self._id, ttl=TTL_MS),))
                self._renew_at = now + RENEW_SECONDS
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        if not self._is_proven and now > self._prove_at:
            self._prove_at = now + PROVE_AGAIN
            # In a thread: the caller may be an event loop.
            threading.Thread(target=self._prove, name="headrace-proof", daemon=True).start()
        if not self._overheard:
            return False
        overheard, self._overheard = self._overheard, []
        return self._hear(overheard)

    def _hear(self, words: Collection[bytes]) -> bool:
        """Whether one of the notifications concerns this waiter."""
        self._is_proven = self._is_proven or self._proof in words
        return any(not word or self._topic in word.split(b"\n") for word in words)

    def _overhear(self, notification: psycopg.Notify) -> None:
        self._overheard.append(notification.payload.encode())

    def _prove(self) -> None:
        """Send the notification that proves that this connection receives those of others."""
        word = self._sql.notify(channel=self._channel, topics=self._proof.decode())
        # Without a connection, polling continues as before.
        by = time.monotonic() + HINT_SECONDS
        with contextlib.suppress(psycopg.Error), self._store.connections.connect(by) as other:
            other.limit = HINT_SECONDS
            send(other, (word,))

    def close(self) -> None:
        # If this fails, the row expires.
        self._connection.limit = HINT_SECONDS / 2
        with contextlib.suppress(psycopg.Error):
            send(self._connection, (self._sql.unregister_waiter(id=self._id),))
        self._connection.close()
