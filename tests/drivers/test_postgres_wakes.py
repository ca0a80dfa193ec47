"""Who listens on PostgreSQL finds out whether it hears, and looks by itself accordingly."""

from collections.abc import Iterator
from typing import cast

import psycopg
import pytest

import headrace
from faults.waiting import until
from headrace.drivers.postgres import wakes
from headrace.drivers.postgres.wakes import Listener
from headrace.waking import bell
from headrace.waking.bell import Waiter


@pytest.fixture
def waiter(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiter]:
    monkeypatch.setattr(wakes, "PROVE_AFTER", 0.0)
    monkeypatch.setattr(wakes, "PROVE_AGAIN", 0.0)
    monkeypatch.setattr(bell, "POLL", 0.01)
    with headrace.connect(postgres_url) as hr:
        waiter = hr._store.waiter("queue/q")
        yield waiter
        waiter.close()


def test_who_hears_a_word_from_elsewhere_looks_less_often(waiter: Waiter) -> None:
    """The word itself is no hint."""
    source = cast(Listener, waiter._source)
    assert not source.is_sure
    until(lambda: waiter.wait(1.0) or source.is_sure, "its own word")
    assert source.is_sure
    assert waiter._longest() == bell.SURE_POLL
    # Who was away for so long that others think that nobody listens.
    source._renew_at -= 2 * wakes.RENEW_SECONDS
    assert waiter._longest() == bell.POLL


def test_who_hears_nothing_goes_on_looking(waiter: Waiter) -> None:
    """As behind a pooler in transaction mode, where LISTEN belongs to nobody."""
    source = cast(Listener, waiter._source)
    source._connection.execute("UNLISTEN *")
    # A word that was on its way before does not count.
    source.drain()
    source._is_proven = False
    assert not any(waiter.wait(1.0) for _ in range(20))
    assert not source.is_sure
    assert waiter._longest() == bell.POLL


def test_a_hint_that_the_library_has_read_is_not_lost(waiter: Waiter) -> None:
    """It comes while the connection is busy with something else: the row is kept."""
    source = cast(Listener, waiter._source)
    source._overhear(psycopg.Notify(source._channel, "queue/other", 1))
    assert not waiter.wait(0.0)
    source._overhear(psycopg.Notify(source._channel, "queue/other,queue/q", 1))
    assert waiter.wait(0.0)
