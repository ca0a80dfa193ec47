"""Willow's locks over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgi import Call
from willow_words import SECOND, Willow, lock, serving, text, values, where

from headrace.stores import open_store
from headrace.testing.clocks import FakeClock

LOCKS = "/v1/locks"
SITE = {"site": "shop"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(store_url: str, clock: FakeClock) -> Callable[[], Any]:
    return lambda: open_store(store_url, clock=clock)


@pytest.fixture
def memory(clock: FakeClock) -> Callable[[], Any]:
    return lambda: open_store("memory://", clock=clock)


async def obtain(willow: Willow, timeout: int | None = None, **pairs: Any) -> Any:
    return await willow.ok("POST", LOCKS, lock(timeout, **(pairs or SITE)))


def session(held: Any) -> dict[str, str]:
    return {"SessionID": held["State"]["SessionID"]}


def path(held: Any) -> str:
    return f"{LOCKS}/{held['State']['LockID']}"


async def release(willow: Willow, held: Any) -> None:
    await willow.ok("DELETE", path(held), session(held), 204)


async def heartbeat(willow: Willow, held: Any, **other: str) -> tuple[int, str]:
    answer = await willow("POST", f"{path(held)}/heartbeat", {**session(held), **other})
    return answer.status, answer.json["code"] if answer.body else ""


async def waits(willow: Willow) -> Call:
    waiting = willow.begin("POST", LOCKS, lock(**SITE))
    for _ in range(500):
        found = await willow.ok("GET", LOCKS, {})
        if any(one["State"]["LocksHeldOrWaiting"] > 1 for one in found):
            break
        await asyncio.sleep(0.002)
    assert not waiting.task.done()
    return waiting


async def answer_of(waiting: Call) -> Any:
    async with asyncio.timeout(30):
        await waiting.task
    assert waiting.answer.status == 200
    return waiting.answer.json


async def test_a_lock_is_held_by_one(opened: Callable[[], Any]) -> None:
    """A waiter gets it when it is released, with a session of its own."""
    async with serving(opened()) as willow:
        held = await obtain(willow, 7 * SECOND)
        assert held["Spec"] == {**lock(7 * SECOND, **SITE)["Spec"]}
        assert held["State"]["LocksHeldOrWaiting"] == 1
        assert held["State"]["TimeTillExipre"] == 7 * SECOND
        other = await obtain(willow, **SITE, zone="eu")
        assert other["State"]["LockID"] != held["State"]["LockID"]
        waiting = await waits(willow)
        await release(willow, held)
        next_held = await answer_of(waiting)
        assert next_held["State"]["LockID"] == held["State"]["LockID"]
        assert next_held["State"]["SessionID"] != held["State"]["SessionID"]
        assert next_held["Spec"]["Properties"] == {"Timeout": 5 * SECOND}
        assert (await heartbeat(willow, held)) == (409, "lock_lost")
        await release(willow, held)
        assert (await heartbeat(willow, next_held)) == (200, "")


async def test_locks_are_listed_without_their_sessions(opened: Callable[[], Any]) -> None:
    async with serving(opened()) as willow:
        held = await obtain(willow)
        await obtain(willow, n=1)
        waiting = await waits(willow)
        for method, where_to in (("GET", LOCKS), ("POST", f"{LOCKS}/query")):
            [one] = await willow.ok(method, where_to, where(**SITE))
            assert one["Spec"] == {"DBDefinition": {"KeyValues": values(**SITE)}}
            assert one["State"]["LockID"] == held["State"]["LockID"]
            assert one["State"]["SessionID"] == ""
            assert one["State"]["LocksHeldOrWaiting"] == 2
            assert one["State"]["TimeTillExipre"] == 5 * SECOND
        waiting.left.set()
        await waiting.task


async def test_a_heartbeat_restarts_the_lease(opened: Callable[[], Any], clock: FakeClock) -> None:
    """When it has ended, and another session has the lock, the heartbeat says so."""
    async with serving(opened()) as willow:
        held = await obtain(willow, 10 * SECOND)
        for _ in range(3):
            clock.advance(9)
            assert (await heartbeat(willow, held)) == (200, "")
        clock.advance(11)
        other = await obtain(willow)
        assert (await heartbeat(willow, held)) == (409, "lock_lost")
        await release(willow, other)
        assert (await heartbeat(willow, other)) == (404, "unknown_lock")


async def test_only_its_session_releases_a_lock(opened: Callable[[], Any]) -> None:
    """The answer is the same for all others."""
    async with serving(opened()) as willow:
        held = await obtain(willow)
        for wrong in ("x", "x.5", ".5", "x." + "9" * 5000, f"{session(held)['SessionID']}0.x"):
            await willow.ok("DELETE", path(held), {"SessionID": wrong}, 204)
            answer = await heartbeat(willow, held, SessionID=wrong)
            assert answer == (409, "lock_lost"), wrong
        for unknown in ("x", "e30", "%20", "eyJhIjpbMTMsImIiXX0"):
            await willow.ok("DELETE", f"{LOCKS}/{unknown}", session(held), 204)
            answer = await willow.refused("POST", f"{LOCKS}/{unknown}/heartbeat", session(held))
            assert answer == (404, "unknown_lock"), unknown
        assert (await heartbeat(willow, held)) == (200, "")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        {},
        {"Spec": {"DBDefinition": {"KeyValues": {}}}},
        lock(site=None),
        lock(0, **SITE),
        lock(-1, **SITE),
        {**lock(**SITE), "State": {"LockID": "x"}},
        {"Spec": {**lock(**SITE)["Spec"], "Timeout": 1}},
    ],
    ids=str,
)
async def test_wrong_locks(memory: Callable[[], Any], body: Any) -> None:
    async with serving(memory()) as willow:
        assert (await willow.refused("POST", LOCKS, body))[0] == 400
        for empty in ({}, {"SessionID": ""}, {"SessionID": 5}, {"SessionID": "x", "More": 1}):
            held = await obtain(willow)
            assert (await willow.refused("POST", f"{path(held)}/heartbeat", empty))[0] == 400
            assert (await willow.refused("DELETE", path(held), empty))[0] == 400
            await release(willow, held)


async def test_a_waiter_that_leaves_is_out_of_line(opened: Callable[[], Any]) -> None:
    async with serving(opened()) as willow:
        held = await obtain(willow)
        waiting = await waits(willow)
        waiting.left.set()
        async with asyncio.timeout(30):
            await waiting.task
        assert waiting.answer.status == 0
        [one] = await willow.ok("GET", LOCKS, {})
        assert one["State"]["LocksHeldOrWaiting"] == 1
        await release(willow, held)
        assert await willow.ok("GET", LOCKS, {}) == []


async def test_a_stopping_node_ends_the_wait(memory: Callable[[], Any]) -> None:
    async with serving(memory()) as willow:
        held = await obtain(willow)
        waiting = await waits(willow)
        willow.app.close()
        async with asyncio.timeout(30):
            await waiting.task
        assert (waiting.answer.status, waiting.answer.json["code"]) == (503, "store_unavailable")
        assert text(held) == SITE
