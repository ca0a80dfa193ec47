"""Pushes on PostgreSQL that somebody waits for: they are woken before the disk is done."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import headrace
from headrace.contract.op import Steps
from headrace.drivers.postgres import item_pushes
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
def somebody(postgres_url: str) -> Iterator[Any]:
    """A client in which somebody waits for items."""
    with headrace.connect(postgres_url) as other:
        waiter = other._store.waiter("queue/q")
        # Who waits has a row by then.
        waiter.wait(0.0)
        yield other
        waiter.close()


def is_on_disk(postgres: PrivatePostgres, since: str) -> bool:
    """Whether more than that has come to the disk."""
    [[is_there]] = postgres.execute(f"select pg_current_wal_flush_lsn() > '{since}'")
    return bool(is_there)


@pytest.mark.usefixtures("lazy_disk", "somebody")
@PUSHES
def test_a_push_is_on_the_disk_when_it_returns(
    hr: headrace.Headrace, postgres: PrivatePostgres, push: Callable[[Any], object]
) -> None:
    """Whether or not the client knows beforehand that somebody waits."""
    queue = hr.queue("q")
    queue.push(0, channel={"os": "linux"})
    hr._store.known.are_awaited = False
    for _ in range(3):
        [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
        push(queue)
        assert is_on_disk(postgres, written)


@PUSHES
def test_who_waits_need_not_wait_for_the_disk(
    hr: headrace.Headrace,
    somebody: headrace.Headrace,
    monkeypatch: pytest.MonkeyPatch,
    push: Callable[[Any], object],
) -> None:
    """Others have the item while its push still waits for the disk."""
    queue = hr.queue("q")
    queue.push(0, channel={"os": "linux"})
    hr._store.known.are_awaited = False
    for item in queue.claim(9):
        item.complete()
    reached, done = threading.Event(), threading.Event()

    def disk(store: Any) -> Steps[None]:
        reached.set()
        assert done.wait(TIMEOUT)
        yield from ()

    monkeypatch.setattr(item_pushes, "flush_now", disk)
    pusher = threading.Thread(target=push, args=(queue,))
    pusher.start()
    assert reached.wait(TIMEOUT)
    assert [item.payload for item in somebody.queue("q").claim(9)][:1] == [1]
    assert pusher.is_alive()
    done.set()
    pusher.join(TIMEOUT)


@pytest.mark.usefixtures("lazy_disk")
def test_nobody_waits_and_one_statement_does_it_all(
    hr: headrace.Headrace, postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = hr.queue("q")
    queue.push(0)

    def disk(store: Any) -> Steps[None]:
        raise AssertionError("it waited for the disk twice")

    monkeypatch.setattr(item_pushes, "flush_now", disk)
    [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
    queue.push(1)
    assert is_on_disk(postgres, written)
    assert not hr._store.known.are_awaited


@pytest.mark.usefixtures("somebody")
def test_a_push_that_may_not_come_to_the_disk_is_in_doubt(
    hr: headrace.Headrace, postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was answered, and then the server went away: whether it is there nobody can say."""
    queue = hr.queue("q")
    queue.push(0)
    store = hr._store
    store.known.are_awaited = False
    flush_now = item_pushes.flush_now
    [connection] = store._pool._idle
    pid = connection.info.backend_pid

    def server_goes(of: Any) -> Steps[None]:
        postgres.execute(f"select pg_terminate_backend({pid}, {TIMEOUT * 1000})")

        def refuse() -> None:
            raise psycopg.OperationalError("nobody is there")

        store._pool._connect = refuse
        yield from flush_now(of)

    monkeypatch.setattr(item_pushes, "flush_now", server_goes)
    store.patience = 0.1
    with pytest.raises(OutcomeUnknown):
        queue.push(1)


@pytest.mark.parametrize("step", [1, 2], ids=["in a row", "with others in between"])
def test_each_of_many_gets_its_own_id(
    hr: headrace.Headrace, postgres: PrivatePostgres, step: int
) -> None:
    """Also where others have taken ids meanwhile."""
    hr.push("q", "first")
    postgres.execute(f"alter sequence {hr._store.schema}.item_id_seq increment by {step}")
    ids = hr.push_many("q", ["a", "b", "c"]).ids
    assert ids[2] - ids[0] == 2 * step
    assert [hr.queue("q").item(id).payload for id in ids] == ["a", "b", "c"]
