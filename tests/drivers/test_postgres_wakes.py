"""A listener on PostgreSQL checks whether it receives notifications, and polls accordingly."""

from collections.abc import Iterator
from typing import cast

import psycopg
import pytest

import headrace
from faults.polling import until
from headrace.drivers import notifier
from headrace.drivers.notifier import NotifierWaiter
from headrace.drivers.postgres import notify
from headrace.drivers.postgres.notify import Listener


@pytest.fixture
def waiter(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifierWaiter]:
    monkeypatch.setattr(notify, "PROVE_AFTER", 0.0)
    monkeypatch.setattr(notify, "PROVE_AGAIN", 0.0)
    monkeypatch.setattr(notifier, "POLL", 0.01)
    with headrace.connect(postgres_url) as hr:
        waiter = hr._store.waiter("queue/q")
        yield waiter
        waiter.close()


def test_a_listener_that_hears_other_sessions_polls_less_often(waiter: NotifierWaiter) -> None:
    """The probe itself is no notification."""
    source = cast(Listener, waiter._source)
    assert not source.is_sure
    until(lambda: waiter.wait(1.0) or source.is_sure, "its own word")
    assert source.is_sure
    assert waiter._longest() == notifier.SURE_POLL
    # A listener that was away so long that others assume that nothing listens.
    source._renew_at -= 2 * notify.RENEW_SECONDS
    assert waiter._longest() == notifier.POLL


def test_a_listener_that_hears_nothing_keeps_polling(waiter: NotifierWaiter) -> None:
    """As behind a pooler in transaction mode, where LISTEN has no effect."""
    source = cast(Listener, waiter._source)
    source._connection.execute("UNLISTEN *")
    # A notification that was sent before does not count.
    source.drain()
    source._is_proven = False
    assert not any(waiter.wait(1.0) for _ in range(20))
    assert not source.is_sure
    assert waiter._longest() == notifier.POLL


def test_a_notification_that_the_library_has_read_is_not_lost(waiter: NotifierWaiter) -> None:
    """It arrives while the connection is busy with something else. It is kept."""
    source = cast(Listener, waiter._source)
    source._overhear(psycopg.Notify(source._channel, "queue/other", 1))
    assert not waiter.wait(0.0)
    source._overhear(psycopg.Notify(source._channel, "queue/other\nqueue/q", 1))
    assert waiter.wait(0.0)
