"""A worker registers before it claims, so that an update never misses it."""

import threading
from typing import Any

import pytest
from worker_fixtures import Gate, WorkerEnv, until

from headrace.errors import StoreUnavailable, UpdateRefused

SOON = 0.2
"""How long a claim that must not come is waited for."""


class Handlers(Gate):
    """Handlers that run until they are released, and how long they take to start."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = threading.Event()

    def __call__(self, what: Any = None) -> None:
        self._begun.set()
        super().__call__(what)

    def begin_soon(self) -> bool:
        return self._begun.wait(SOON)


def refuses_update(env: WorkerEnv) -> None:
    with pytest.raises(UpdateRefused):
        env.outside.queue(env.name).update(lease=77.0, time_limit=0.05, strict=True)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_worker_claims_nothing_before_it_is_registered(env: WorkerEnv, kind: str) -> None:
    """So an update finds every worker that it has to stop."""
    handlers = Handlers()
    env.push(1)
    beat = env.interceptor.stop_next("queues.heartbeat")

    async def handle(item: Any) -> None:
        handlers(item)

    env.work(handlers if kind == "sync" else handle)
    beat.arrived.wait()
    if handlers.begin_soon():
        refuses_update(env)
    beat.open()
    handlers.arrived.wait()
    refuses_update(env)
    handlers.open()
    until(lambda: not env.counts.total, "the item to be done")
    assert env.outside.queue(env.name).update(lease=77.0, strict=True).is_changed


def test_a_row_is_not_removed_by_the_last_worker_before_it(env: WorkerEnv) -> None:
    """A client whose last worker ends removes its rows. The next worker waits for that."""
    first = env.work(print)
    env.interceptor.ran["queues.claim"].wait()
    leave = env.interceptor.stop_next("queues.unregister")
    first.stop()
    leave.arrived.wait()
    handlers = Handlers()
    env.push(1)
    env.work(handlers)
    begins_early = handlers.begin_soon()
    beat = env.interceptor.stop_next("queues.heartbeat")
    leave.open()
    env.interceptor.ran["queues.unregister"].wait()
    if begins_early:
        refuses_update(env)
    beat.open()
    handlers.arrived.wait()
    refuses_update(env)
    handlers.open()


def test_a_worker_whose_row_cannot_be_written_tries_again(env: WorkerEnv) -> None:
    env.interceptor.fail_next("queues.heartbeat", StoreUnavailable("away"))
    env.push(1)
    worker = env.work(print)
    until(lambda: worker.done == 1, "the item to be done")
    assert env.interceptor.failed["queues.heartbeat"] == 1


def test_a_worker_that_was_never_registered_can_be_stopped(env: WorkerEnv) -> None:
    env.interceptor.fail_next("queues.heartbeat", *[StoreUnavailable("away")] * 100)
    env.push(1)
    worker = env.work(print)
    until(lambda: env.interceptor.failed["queues.heartbeat"], "a beat that fails")
    worker.stop()
    assert (worker.status, env.counts.pending) == ("stopped", 1)


def test_updates_at_the_start_of_a_worker(env: WorkerEnv) -> None:
    """At several moments. An update waits for a running handler."""
    env.create()
    for round in range(3):
        handlers = Handlers()
        [item] = env.push(round)
        worker = env.work(handlers)
        try:
            env.outside.queue(env.name).update(lease=100.0 + round, time_limit=0.05, strict=True)
            is_changed = True
        except UpdateRefused:
            is_changed = False
        handlers.arrived.wait()
        if is_changed:
            # It was claimed under the new settings.
            state = env.item(item)
            assert state.lease_until - state.claimed_at == (100 + round) * 1000
        handlers.open()
        worker.stop()
