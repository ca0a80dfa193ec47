"""Pushes on PostgreSQL with waiters, which are woken before the flush."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import headrace
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath import push as fastpath_push
from headrace.errors import OutcomeUnknown
from headrace.testing.postgres import PrivatePostgres

TIMEOUT = 30

PUSHES = pytest.mark.parametrize(
    "push",
    [
        lambda queue: queue.push(1),
        lambda queue: queue.push_many([1, 2, 3]),
        lambda queue: queue.push_many([1, headrace.Doc(2, headers={"k": "v"})]),
        lambda queue: queue.push(1, channel={"os": "mac"}),
    ],
    ids=["one", "several", "unlike each other", "to a channel"],
)


@pytest.fixture
def waiting_client(postgres_url: str) -> Iterator[Any]:
    """A client with a waiter for items."""
    with headrace.connect(postgres_url) as other:
        waiter = other._store.waiter("queue/q")
        # The waiter has a row by then.
        waiter.wait(0.0)
        yield other
        waiter.close()


def is_flushed(postgres: PrivatePostgres, since: str) -> bool:
    """Whether the WAL has been flushed beyond that position."""
    [[is_there]] = postgres.execute(f"select pg_current_wal_flush_lsn() > '{since}'")
    return bool(is_there)


@pytest.mark.usefixtures("slow_wal_writer", "waiting_client")
@PUSHES
def test_a_push_is_durable_when_it_returns(
    hr: headrace.Headrace, postgres: PrivatePostgres, push: Callable[[Any], object]
) -> None:
    """Whether or not the client knows beforehand of a waiter."""
    queue = hr.queue("q")
    queue.push(0, channel={"os": "linux"})
    hr._store.queue_cache.are_awaited = False
    for _ in range(3):
        [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
        push(queue)
        assert is_flushed(postgres, written)


@PUSHES
def test_waiters_do_not_wait_for_the_flush(
    hr: headrace.Headrace,
    waiting_client: headrace.Headrace,
    monkeypatch: pytest.MonkeyPatch,
    push: Callable[[Any], object],
) -> None:
    """Another client has the item while its push still waits for the flush."""
    queue = hr.queue("q")
    queue.push(0, channel={"os": "linux"})
    hr._store.queue_cache.are_awaited = False
    for item in queue.claim(9):
        item.complete()
    reached, done = threading.Event(), threading.Event()

    def disk(store: Any) -> Steps[None]:
        reached.set()
        assert done.wait(TIMEOUT)
        yield from ()

    monkeypatch.setattr(fastpath_push, "flush_now", disk)
    pusher = threading.Thread(target=push, args=(queue,))
    pusher.start()
    assert reached.wait(TIMEOUT)
    assert [item.payload for item in waiting_client.queue("q").claim(9)][:1] == [1]
    assert pusher.is_alive()
    done.set()
    pusher.join(TIMEOUT)


@pytest.mark.usefixtures("slow_wal_writer")
def test_without_waiters_a_push_is_one_statement(
    hr: headrace.Headrace, postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = hr.queue("q")
    queue.push(0)

    def disk(store: Any) -> Steps[None]:
        raise AssertionError("it waited for the flush twice")

    monkeypatch.setattr(fastpath_push, "flush_now", disk)
    [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
    queue.push(1)
    assert is_flushed(postgres, written)
    assert not hr._store.queue_cache.are_awaited


@pytest.mark.usefixtures("waiting_client")
def test_a_push_whose_flush_failed_is_in_doubt(
    hr: headrace.Headrace, postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was answered, and then the server went away: whether it is stored is unknown."""
    queue = hr.queue("q")
    queue.push(0)
    store = hr._store
    store.queue_cache.are_awaited = False
    flush_now = fastpath_push.flush_now
    [connection] = store.connections.pool._idle
    pid = connection.info.backend_pid

    def server_goes(of: Any) -> Steps[None]:
        postgres.execute(f"select pg_terminate_backend({pid}, {TIMEOUT * 1000})")

        def refuse() -> None:
            raise psycopg.OperationalError("nobody is there")

        store.connections.pool._connect = refuse
        yield from flush_now(of)

    monkeypatch.setattr(fastpath_push, "flush_now", server_goes)
    store.patience = 0.1
    with pytest.raises(OutcomeUnknown):
        queue.push(1)


@pytest.mark.parametrize("step", [1, 2], ids=["in a row", "with others in between"])
def test_each_of_many_gets_its_own_id(
    hr: headrace.Headrace, postgres: PrivatePostgres, step: int
) -> None:
    """Even if other pushes have used ids meanwhile."""
    hr.push("q", "first")
    postgres.execute(f"alter sequence {hr._store.schema}.item_id_seq increment by {step}")
    ids = hr.push_many("q", ["a", "b", "c"]).ids
    assert ids[2] - ids[0] == 2 * step
    assert [hr.queue("q").item(id).payload for id in ids] == ["a", "b", "c"]


def test_a_limit_set_in_the_middle_of_a_push_refuses_no_part_of_it(
    hr: headrace.Headrace, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subject was in use in the first round, and is free in the second. The queue gets a limit
    in between, when a part of the push is stored."""
    queue = hr.queue("q")
    queue.push(0, subject="a")
    sort_out = fastpath_push._sort_out
    with headrace.connect(postgres_url) as other:

        def meanwhile(*args: Any) -> Any:
            for item in other.queue("q").claim(1):
                item.complete()
            other.queue("q").update(max_items=1)
            monkeypatch.setattr(fastpath_push, "_sort_out", sort_out)
            return sort_out(*args)

        monkeypatch.setattr(fastpath_push, "_sort_out", meanwhile)
        hr.push_many("q", [headrace.Doc(1, subject="a"), headrace.Doc(2, subject="b")])
    assert sorted(item.payload for item in queue.claim(9)) == [1, 2]
