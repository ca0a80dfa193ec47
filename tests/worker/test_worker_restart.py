"""A database that goes away under a worker, and comes back."""

from collections.abc import Iterator

import pytest
from workshop import Gate, Shop, Signal, heard

from headrace.testing.postgres import PrivatePostgres


@pytest.fixture
def server() -> Iterator[PrivatePostgres]:
    """A server of its own, which may be stopped."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def shop(server: PrivatePostgres) -> Iterator[Shop]:
    """With little patience, so that the worker hears of the failure."""
    shop = Shop(server.url, patience=0.2)
    yield shop
    shop.close()


@pytest.mark.parametrize("immediately", [False, True])
def test_a_worker_goes_on_after_a_restart_of_its_database(
    server: PrivatePostgres, shop: Shop, immediately: bool
) -> None:
    """What ran meanwhile is settled then, and new items come: it is not deaf."""
    gate, seen = Gate(), Signal()

    def handle(item: object) -> None:
        if len(seen.seen) == 1:
            gate()
        seen(item)

    worker = shop.work(handle, lease=60)
    data, errors = heard(worker, "data"), heard(worker, "error")
    shop.push("before", "during")
    gate.arrived.wait()
    # A settle that is cut off at its commit is another story: the lease decides.
    data.wait()
    server.stop(immediately=immediately)
    gate.open()
    errors.wait_for(lambda all: any(trouble.doing == "settle" for trouble in all))
    server.start()
    data.wait(2)
    shop.push("after")
    assert [done.item.payload for done in data.wait(3)] == ["before", "during", "after"]
    assert (worker.status, worker.done, shop.counts.total) == ("running", 3, 0)
    # A claim need not survive a crash: then it is as if it was never made.
    assert worker.lost <= immediately
