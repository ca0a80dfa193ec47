"""A database that goes away under a worker, and returns."""

from collections.abc import Iterator

import pytest
from worker_fixtures import Gate, Signal, WorkerEnv, events_of

from headrace.testing.postgres import PrivatePostgres


@pytest.fixture
def server() -> Iterator[PrivatePostgres]:
    """A server of its own, which may be stopped."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def env(server: PrivatePostgres) -> Iterator[WorkerEnv]:
    """With little patience, so that the worker hears of the failure."""
    env = WorkerEnv(server.url, patience=0.2)
    yield env
    env.close()


@pytest.mark.parametrize("immediately", [False, True])
def test_a_worker_continues_after_a_restart_of_its_database(
    server: PrivatePostgres, env: WorkerEnv, immediately: bool
) -> None:
    """Items that ran meanwhile are settled then, and new items are handled."""
    gate, seen = Gate(), Signal()

    def handle(item: object) -> None:
        if len(seen.seen) == 1:
            gate()
        seen(item)

    worker = env.work(handle, lease=60)
    data, errors = events_of(worker, "data"), events_of(worker, "error")
    env.push("before", "during")
    gate.arrived.wait()
    # A settle that is cut off at its commit is a different case: the lease decides.
    data.wait()
    server.stop(immediately=immediately)
    gate.open()
    errors.wait_for(lambda all: any(trouble.doing == "settle" for trouble in all))
    server.start()
    data.wait(2)
    env.push("after")
    assert [done.item.payload for done in data.wait(3)] == ["before", "during", "after"]
    assert (worker.status, worker.done, env.counts.total) == ("running", 3, 0)
    # A claim need not survive a crash: then it is as if it had never been made.
    assert worker.lost <= immediately
