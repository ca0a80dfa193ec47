"""Killed holders of locks, and killed waiters."""

import headrace
from faults.polling import PATIENCE, until
from faults.processes import Child, ChildProcesses
from headrace.testing.postgres import PrivatePostgres

LOCK = {"site": "shop"}
LEASE = 1.0


def token(child: Child) -> int | None:
    """The number by which a child holds the lock, if it does."""
    return next((entry.outcome["token"] for entry in child.entries() if entry.outcome), None)


def test_the_next_waiter_gets_the_lock_of_a_killed_holder(
    durable_url: str, processes: ChildProcesses
) -> None:
    """After the lease and not before, by a higher number, whichever waiters died."""
    arguments = {"url": durable_url, "lock": LOCK, "lease": LEASE}
    with headrace.connect(durable_url) as hr:
        holder = processes.start("lock_holder", **arguments)
        first = until(lambda: token(holder), "a holder")
        waiter = processes.start("lock_holder", **arguments)
        until(lambda: hr.locks.list()[0].waiting, "one in line")
        waiter.kill()
        # It holds the lock for longer than the lease, by heartbeats.
        until(lambda: _until(hr) > _since(hr) + LEASE, "a heartbeat")
        assert hr.locks.list()[0].token == first
        holder.kill()
        end = _until(hr)
        with hr.lock(LOCK, wait=PATIENCE) as lock:
            second = lock.token
            assert second > first
            assert _since(hr) >= end
        after = processes.start("lock_holder", **arguments)
        assert until(lambda: token(after), "another holder") > second


def test_a_fencing_number_is_durable_before_it_is_answered(fragile: PrivatePostgres) -> None:
    """Even if the store need not flush otherwise: no crash grants a number twice."""
    relaxed = f"{fragile.url}?durability=relaxed"
    with headrace.connect(fragile.url) as safe, headrace.connect(relaxed) as hr:
        safe.lock(LOCK, heartbeat=False).acquire().release()
        safe.commit("numbers", {"n": 0})
        lock = hr.lock(LOCK, heartbeat=False)
        assert hr.locks.list() == []
        lock.acquire()
        hr.commit("numbers", {"n": 1})
        fragile.restart(immediately=True)
        assert safe.topic("numbers").length() == 1, "the crash lost nothing"
        assert [info.token for info in safe.locks.list()] == [lock.token]


def _until(hr: headrace.Headrace) -> float:
    [info] = hr.locks.list()
    assert info.until is not None
    return info.until.timestamp()


def _since(hr: headrace.Headrace) -> float:
    [info] = hr.locks.list()
    assert info.since is not None
    return info.since.timestamp()
