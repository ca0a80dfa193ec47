"""Holders of locks, and those who wait for them, killed."""

import headrace
from faults.crew import Child, Crew
from faults.waiting import PATIENCE, until
from headrace.testing.postgres import PrivatePostgres

LOCK = {"site": "shop"}
LEASE = 1.0


def token(child: Child) -> int | None:
    """The number by which a child has the lock, if it has it."""
    return next((entry.outcome["token"] for entry in child.entries() if entry.outcome), None)


def test_the_next_one_has_the_lock_when_its_holder_was_killed(durable_url: str, crew: Crew) -> None:
    """After the lease and not before, by a higher number, whoever else died in the line."""
    arguments = {"url": durable_url, "lock": LOCK, "lease": LEASE}
    with headrace.connect(durable_url) as hr:
        holder = crew.start("locker", **arguments)
        first = until(lambda: token(holder), "a holder")
        waiter = crew.start("locker", **arguments)
        until(lambda: hr.locks()[0].waiting, "one in line")
        waiter.kill()
        # It lives on for longer than its lease: by its heartbeats.
        until(lambda: _until(hr) > _since(hr) + LEASE, "a heartbeat")
        assert hr.locks()[0].token == first
        holder.kill()
        end = _until(hr)
        with hr.lock(LOCK, wait=PATIENCE) as lock:
            second = lock.token
            assert second > first
            assert _since(hr) >= end
        after = crew.start("locker", **arguments)
        assert until(lambda: token(after), "another holder") > second


def test_a_number_is_on_disk_before_it_is_answered(fragile: PrivatePostgres) -> None:
    """Also where the store need not wait for the disk otherwise: no crash gives it twice."""
    relaxed = f"{fragile.url}?durability=relaxed"
    with headrace.connect(fragile.url) as safe, headrace.connect(relaxed) as hr:
        safe.lock(LOCK, heartbeat=False).acquire().release()
        safe.commit("numbers", {"n": 0})
        lock = hr.lock(LOCK, heartbeat=False)
        assert hr.locks() == []
        lock.acquire()
        hr.commit("numbers", {"n": 1})
        fragile.restart(immediately=True)
        assert safe.length("numbers") == 1, "the crash took nothing away"
        assert [info.token for info in safe.locks()] == [lock.token]


def _until(hr: headrace.Headrace) -> float:
    [info] = hr.locks()
    assert info.until is not None
    return info.until.timestamp()


def _since(hr: headrace.Headrace) -> float:
    [info] = hr.locks()
    assert info.since is not None
    return info.since.timestamp()
