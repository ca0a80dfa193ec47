"""Wake-ups on PostgreSQL: NOTIFY, when somebody listens.

Who waits has a connection of its own for LISTEN, and a row that says so. Behind a pooler in
transaction mode LISTEN hears nothing; looking every quarter of a second does. So who waits for
longer sends itself a word through another connection: who hears it may look less often.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from headrace.drivers.postgres.sending import send
from headrace.drivers.relational.sql import Statement
from headrace.model.tokens import batch_id
from headrace.waking.bell import Waiter, bell

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

TTL_MS = 60_000
LONGEST_PAYLOAD = 7_000
RENEW_SECONDS = TTL_MS / 3000
PROVE_AFTER = 2.0
PROVE_AGAIN = 600.0


class Wakes:
    """Rings, and makes those who wait to be rung."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._bell = bell(f"{store.conninfo} {store.schema}")
        self.is_hinting = True

    @property
    def channel(self) -> str:
        return f"headrace_{self._store.schema}"

    @property
    def hinted(self) -> str | None:
        """The channel, if anybody is to be told."""
        return self.channel if self.is_hinting else None

    def notifications(self, topics: Iterable[str]) -> Sequence[Statement]:
        """The statement that tells other processes, once the transaction is committed."""
        if not self.is_hinting:
            return ()
        names = ",".join(topics)
        payload = names if len(names) <= LONGEST_PAYLOAD else ""
        return (self._store.sql.notify(channel=self.channel, topics=payload),)

    def ring(self, topics: Collection[str]) -> None:
        """Tell those who wait in this process."""
        if topics and self.is_hinting:
            self._bell.ring(topics)

    def waiter(self, topic: str) -> Waiter:
        """One who waits for records of a topic."""
        if not self.is_hinting:
            return Waiter(bell("nobody rings this"), topic, None)
        return Waiter(self._bell, topic, lambda: Listener(self._store, self.channel, topic))


class Listener:
    """A connection that listens."""

    def __init__(self, store: PostgresStore, channel: str, topic: str) -> None:
        self._store = store
        self._sql = store.sql
        self._channel = channel
        self._id = batch_id()
        self._proof = f"proof/{self._id}".encode()
        self._prove_at = time.monotonic() + PROVE_AFTER
        self._is_proven = False
        # What the library has read while it was busy with something else.
        self._overheard: list[bytes] = []
        self._topic = topic.encode()
        self._renew_at = 0.0
        try:
            self._connection = store.connect()
            self._connection.add_notify_handler(self._overhear)
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        self.drain()

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def is_sure(self) -> bool:
        """As long as the row says that somebody listens: who was away for longer is told
        nothing."""
        is_known = time.monotonic() < self._renew_at + RENEW_SECONDS
        return self._is_proven and is_known

    def drain(self) -> bool:
        words = []
        try:
            # Less than the library's own way, and those who wait are waiting for it.
            self._connection.pgconn.consume_input()
            while told := self._connection.pgconn.notifies():
                words.append(told.extra)
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        is_ours = self._hear(words)
        return self.keep() or is_ours

    def keep(self) -> bool:
        now = time.monotonic()
        try:
            if now > self._renew_at:
                send(self._connection, (self._sql.keep_waiter(id=self._id, ttl=TTL_MS),))
                self._renew_at = now + RENEW_SECONDS
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        if not self._is_proven and now > self._prove_at:
            self._prove_at = now + PROVE_AGAIN
            # It may be an event loop that waits here.
            threading.Thread(target=self._prove, name="headrace-proof", daemon=True).start()
        if not self._overheard:
            return False
        overheard, self._overheard = self._overheard, []
        return self._hear(overheard)

    def _hear(self, words: Collection[bytes]) -> bool:
        """Whether one of them is for who waits here."""
        self._is_proven = self._is_proven or self._proof in words
        return any(not word or self._topic in word.split(b",") for word in words)

    def _overhear(self, told: psycopg.Notify) -> None:
        self._overheard.append(told.payload.encode())

    def _prove(self) -> None:
        """Send the word by which it is known that this connection hears others."""
        word = self._sql.notify(channel=self._channel, topics=self._proof.decode())
        # If no connection is to be had it goes on as before.
        with contextlib.suppress(psycopg.Error), self._store.connect() as other:
            send(other, (word,))

    def close(self) -> None:
        # If this fails its row ends by itself.
        with contextlib.suppress(psycopg.Error):
            send(self._connection, (self._sql.drop_waiter(id=self._id),))
        self._connection.close()
