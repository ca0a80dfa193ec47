"""When claims on PostgreSQL start at the scan floor, above positions that were claimed before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import headrace
from faults.polling import until
from headrace.drivers.postgres.fastpath import scan_floor
from headrace.drivers.postgres.fastpath.scan_floor import (
    FLOOR_SECONDS,
    SLOW_CLAIMS,
    SLOW_SECONDS,
    ScanFloor,
)
from headrace.testing.postgres import PrivatePostgres
from headrace.types import Query

QUICK, SLOW = SLOW_SECONDS / 10, SLOW_SECONDS * 2


class Claims:
    """Claims of 100 items with a given duration."""

    def __init__(self) -> None:
        self.now = 0.0
        self.floor = ScanFloor(lambda: self.now)
        self.position = 0

    def claim(self, seconds: float, times: int = 1) -> None:
        for _ in range(times):
            self.position += 100
            self.now += seconds
            self.floor.rise(0, self.position, seconds, 100)


@pytest.fixture
def claims() -> Claims:
    return Claims()


def test_quick_claims_start_from_the_bottom(claims: Claims) -> None:
    claims.claim(QUICK, 100)
    assert not claims.floor.is_wanted


@pytest.mark.parametrize("before", [0, 10], ids=["slow from the first", "quick before"])
def test_slow_claims_try_the_floor_and_stay_there_if_it_helps(claims: Claims, before: int) -> None:
    """Whether or not this client has ever seen a quick claim."""
    claims.claim(QUICK, before)
    claims.claim(SLOW, SLOW_CLAIMS)
    assert claims.floor.is_wanted
    assert claims.floor.position == claims.position
    claims.claim(QUICK)
    assert claims.floor.is_wanted
    claims.claim(QUICK, 3)
    assert claims.floor.is_wanted
    claims.now += FLOOR_SECONDS
    assert not claims.floor.is_wanted


def test_single_slow_claims_do_not_count(claims: Claims) -> None:
    for _ in range(10):
        claims.claim(QUICK)
        claims.claim(SLOW, SLOW_CLAIMS - 1)
        assert not claims.floor.is_wanted


def test_a_trial_that_does_not_help_pauses_the_floor(claims: Claims) -> None:
    """Claims are slow for another reason, such as a busy server."""
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(SLOW)
    assert not claims.floor.is_wanted
    claims.claim(SLOW, SLOW_CLAIMS)
    assert not claims.floor.is_wanted
    claims.now += FLOOR_SECONDS
    claims.claim(SLOW)
    assert claims.floor.is_wanted


def test_the_next_scan_from_the_bottom_needs_one_claim(claims: Claims) -> None:
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(QUICK)
    claims.now += FLOOR_SECONDS
    claims.claim(SLOW)
    assert claims.floor.is_wanted


def test_one_claim_per_period_scans_from_the_bottom(claims: Claims) -> None:
    """This also holds if claims follow each other so closely that one is in progress at that time.
    It started at the floor, and says nothing about the bottom."""
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(QUICK)
    claims.now += FLOOR_SECONDS - SLOW / 2
    assert claims.floor.is_wanted
    claims.claim(SLOW)
    assert not claims.floor.is_wanted
    claims.claim(SLOW)
    assert claims.floor.is_wanted


def test_an_item_put_in_line_resets_the_floor(claims: Claims) -> None:
    """The next claim scans from the bottom, and a trial leads to the floor again."""
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(QUICK)
    claims.floor.reset()
    assert not claims.floor.is_wanted
    claims.claim(SLOW)
    assert claims.floor.is_wanted


@pytest.mark.parametrize("discipline", ["fifo", "priority", "lifo"])
@pytest.mark.parametrize("select", [None, Query()], ids=["line", "turns"])
def test_skipped_items_are_claimed_in_the_end(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, select: Query | None, discipline: str
) -> None:
    """Above the floor, items that returned to their old position wait while there are others behind
    them. A claim that does not find enough scans from the bottom. A lifo queue has no floor."""
    monkeypatch.setattr(ScanFloor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queues.create("q", discipline=discipline, exist_ok=True)
        channels = [None] if select is None else [{"os": "linux"}, {"os": "mac"}]
        for number in range(50):
            queue.push(number, channel=channels[number % len(channels)])
        # From the first claim the client learns that there are channels.
        queue.complete(queue.claim(10, select=select, quantum=5))
        left = {item.payload for item in queue.items()}
        first = queue.claim(10, select=select, quantum=5)
        assert len(first) == 10
        back = {item.payload for item in first}
        queue.release(first)
        second = queue.claim(10, select=select, quantum=5)
        is_passed_over = back.isdisjoint(item.payload for item in second)
        assert is_passed_over is (discipline != "lifo")
        third = queue.claim(40, select=select)
        assert sorted(item.payload for item in second + third) == sorted(left)
        assert queue.complete(second + third)
        assert hr.queue("q").channels.list() == []


def test_strict_channels_have_no_floor(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A returned item goes before those behind it."""
    monkeypatch.setattr(ScanFloor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queues.create("q", serial=True, exist_ok=True)
        for number in range(4):
            queue.push(number, channel={"os": "linux"})
        queue.complete(queue.claim(1, select=Query()))
        for _ in range(3):
            [item] = queue.claim(1, select=Query())
            assert item.payload == 1
            queue.release([item])


@pytest.mark.parametrize("select", [None, Query()], ids=["line", "turns"])
def test_a_higher_priority_is_not_skipped(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, select: Query | None
) -> None:
    """It goes before the position that claims have reached."""
    monkeypatch.setattr(ScanFloor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queues.create("q", discipline="priority", exist_ok=True)
        channel = None if select is None else {"os": "linux"}
        for number in range(9):
            queue.push(number, channel=channel)
        for _ in range(3):
            queue.complete(queue.claim(1, select=select))
        queue.push("urgent", channel=channel, priority=1)
        assert [item.payload for item in queue.claim(2, select=select)] == ["urgent", 3]


def test_each_channel_is_scanned_from_the_bottom_periodically(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the other channels keep the claims busy."""
    monkeypatch.setattr(ScanFloor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queue("q")
        for number in range(1500):
            queue.push(number, channel={"os": "linux"})
        queue.complete(queue.claim(1, select=Query()))
        queue.complete(queue.claim(1, select=Query()))
        [item] = queue.claim(1, select=Query())
        queue.release([item])
        begun = time.monotonic()
        while (claimed := queue.claim(1, select=Query())[0]).payload != item.payload:
            queue.complete([claimed])
            assert time.monotonic() - begun < 10


@pytest.mark.parametrize("select", [None, Query()], ids=["line", "turns"])
def test_an_expired_item_waits_at_most_two_seconds(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, select: Query | None
) -> None:
    """However long the backlog is, and although all claims but one per second start at the
    floor."""
    monkeypatch.setattr(scan_floor, "SLOW_CLAIMS", 0)
    monkeypatch.setattr(scan_floor, "GAIN", 0.0)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queues.create("q", discipline="priority", exist_ok=True)
        channel = None if select is None else {"os": "linux"}
        # More than can be claimed one by one in that time.
        for number in range(3):
            queue.push_many([headrace.Doc(number, channel=channel)] * 5000)
        queue.complete(queue.claim(1, select=select))
        queue.push("urgent", channel=channel, priority=1)
        assert queue.claim(1, select=select, lease=0.2)[0].payload == "urgent"
        over = time.monotonic() + 0.2
        while (claimed := queue.claim(1, select=select)[0]).payload != "urgent":
            assert time.monotonic() < over + 10
        waited = time.monotonic() - over
        assert claimed.crashes == 1
        # A claim behind so much takes a while on a busy machine.
        assert waited < 2 + 1
        assert hr.queue("q").stats().pending > 0


@contextmanager
def expired_item(postgres: PrivatePostgres, url: str) -> Iterator[headrace.Headrace]:
    """A client of a queue with one expired lease, and many pending items."""
    with headrace.connect(url) as hr:
        queue = hr.queue("q")
        queue.push_many(range(100))
        queue.claim(1, lease=0.001)
        table = f"{url.rpartition('=')[2]}.item"
        over = f"select id from {table} where lease_until < extract(epoch from now()) * 1000"
        until(lambda: postgres.execute(over), "the end of the lease", 10)
        yield hr


@contextmanager
def locked_items(postgres: PrivatePostgres, url: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that has locked all items with expired leases."""
    with psycopg.connect(postgres.url) as connection:
        table = f"{url.rpartition('=')[2]}.item"
        connection.execute(f"select from {table} where state = 2 for update".encode())
        yield connection


def test_a_worker_that_was_faster_to_end_a_lease_changes_nothing(
    postgres: PrivatePostgres, postgres_url: str
) -> None:
    """It locks the item for a moment. The next claim checks for expired leases again."""
    with expired_item(postgres, postgres_url) as hr:
        queue = hr.queue("q")
        known = hr._store.queue_cache
        row = known._queues["q"]
        with locked_items(postgres, postgres_url):
            assert [item.payload for item in queue.claim(1)] == [1]
            assert known.ends_leases(row)
        assert [item.payload for item in queue.claim(1)] == [0]
        assert known.ends_leases(row)


def test_expired_leases_that_stay_locked_are_skipped_for_a_while(
    postgres: PrivatePostgres, postgres_url: str
) -> None:
    """An open transaction has locked them: not every claim tries to end them."""
    with expired_item(postgres, postgres_url) as hr:
        queue = hr.queue("q")
        known = hr._store.queue_cache
        row = known._queues["q"]
        with locked_items(postgres, postgres_url):
            until(lambda: queue.claim(1) and not known.ends_leases(row), "the note", 10)
        until(lambda: known.ends_leases(row), "its end", 10)
        assert [item.payload for item in queue.claim(1)] == [0]
