"""``/locks`` and ``/counters``: leases on key-values, and slots under limits."""

from __future__ import annotations

import msgspec

from headrace.core.counters import CounterInfo
from headrace.core.locks import LockInfo
from headrace.errors import LockLost, SlotsLost
from headrace.model.times import duration_ms
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.key_values import Named, QueryBody
from headrace.node.resources.long_polls import LeftBehind, checked_wait, while_connected
from headrace.node.resources.pages import ListPage, page
from headrace.node.resources.values import Seconds


class LockBody(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lock to be acquired. A session that has it keeps it."""

    lease: Seconds = 30.0
    wait: float = 0.0
    session: str | None = None


class HeldLockBody(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lock and the session that holds it."""

    session: str


class ExtendedLock(HeldLockBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lock whose lease is to last so long from now."""

    lease: Seconds = 30.0


class ForcedLock(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lock that is released from any holder; only that grant, if ``token`` names one."""

    token: int | None = None


class AcquiredLockView(msgspec.Struct, frozen=True, kw_only=True):
    """A lock that was granted: ``token`` is its fencing number."""

    session: str
    token: int


class SlotsBody(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slots to be acquired."""

    count: int = 1
    lease: Seconds = 30.0
    wait: float = 0.0


class HeldSlots(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slots that a session holds."""

    session: str


class ExtendedSlots(HeldSlots, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slots whose lease is to last so long from now."""

    lease: Seconds = 30.0


class CounterBody(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many slots are to count as used, by nobody."""

    count: int


class LockPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some locks."""

    locks: list[LockInfo]
    next: str | None


class CounterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some counters."""

    counters: list[CounterInfo]
    next: str | None


async def acquire_lock(call: ApiCall[LockBody, None]) -> AcquiredLockView:
    body = call.body
    wait = checked_wait(body.wait)
    lock = call.hr.lock(
        body.typed, lease=body.lease, wait=wait, heartbeat=False, session=body.session
    )
    try:
        await (while_connected(call, lock.acquire()) if wait else lock.acquire())
    except LeftBehind:
        await lock.release()
        raise
    return AcquiredLockView(session=lock.session, token=lock.token)


async def extend_lock(call: ApiCall[ExtendedLock, None]) -> None:
    body = call.body
    form = body.typed.form
    lease_ms = duration_ms("lease", body.lease, least=1)
    await call.store.arun(call.store.locks.extend(form, body.session, lease_ms))


async def release_lock(call: ApiCall[HeldLockBody, None]) -> None:
    form = call.body.typed.form
    if not await call.store.arun(call.store.locks.release(form, call.body.session)):
        raise LockLost("the session does not hold this lock: it may have lost it.")


async def force_release_lock(call: ApiCall[ForcedLock, None]) -> LockInfo:
    return await call.hr.locks.force_release(call.body.typed, token=call.body.token)


async def query_locks(call: ApiCall[QueryBody, None]) -> ListPage:
    body, limit = call.body, call.body.checked_limit
    found = await call.hr.locks.list(body.query, after=body.place("locks"), limit=limit)
    return page("locks", found, limit, lambda info: info.key_values.form)


async def acquire_slots(call: ApiCall[SlotsBody, None]) -> dict[str, str]:
    body = call.body
    wait = checked_wait(body.wait)
    slots = call.hr.slots(body.typed, body.count, lease=body.lease, wait=wait, heartbeat=False)
    try:
        await (while_connected(call, slots.acquire()) if wait else slots.acquire())
    except LeftBehind:
        await slots.release()
        raise
    return {"session": slots.session}


async def extend_slots(call: ApiCall[ExtendedSlots, None]) -> None:
    lease_ms = duration_ms("lease", call.body.lease, least=1)
    await call.store.arun(call.store.counters.extend(call.body.session, lease_ms))


async def release_slots(call: ApiCall[HeldSlots, None]) -> None:
    if not await call.store.arun(call.store.counters.release(call.body.session)):
        raise SlotsLost("the session does not hold these slots: it may have lost them.")


async def set_counter(call: ApiCall[CounterBody, None]) -> dict[str, int]:
    return {"count": await call.hr.counters.set(call.body.typed, call.body.count)}


async def query_counters(call: ApiCall[QueryBody, None]) -> ListPage:
    body, limit = call.body, call.body.checked_limit
    found = await call.hr.counters.list(body.query, after=body.place("counters"), limit=limit)
    return page("counters", found, limit, lambda info: info.key_values.form)


_NAMED = {"key_values": {"site": "shop"}}
_HELD = {**_NAMED, "session": "…"}

ENDPOINTS = [
    Endpoint(
        method="POST",
        path="/locks/acquire",
        summary="Acquire a lock",
        handle=acquire_lock,
        body=LockBody,
        answer=AcquiredLockView,
        example={**_NAMED, "lease": 30, "wait": 5},
    ),
    Endpoint(
        method="POST",
        path="/locks/extend",
        summary="Extend the lease of a lock",
        handle=extend_lock,
        body=ExtendedLock,
        status=204,
        keeps_work=True,
        example=_HELD,
    ),
    Endpoint(
        method="POST",
        path="/locks/release",
        summary="Release a lock",
        handle=release_lock,
        body=HeldLockBody,
        status=204,
        keeps_work=True,
        example=_HELD,
    ),
    Endpoint(
        method="POST",
        path="/locks/force-release",
        summary="Release a lock of another session",
        handle=force_release_lock,
        body=ForcedLock,
        answer=LockInfo,
        example=_NAMED,
    ),
    Endpoint(
        method="POST",
        path="/locks/query",
        summary="List locks",
        handle=query_locks,
        body=QueryBody,
        answer=LockPage,
        example={},
    ),
    Endpoint(
        method="POST",
        path="/counters/acquire",
        summary="Acquire slots under limits",
        handle=acquire_slots,
        body=SlotsBody,
        answer=dict[str, str],
        example={"key_values": {"api": "maps"}, "count": 1},
    ),
    Endpoint(
        method="POST",
        path="/counters/extend",
        summary="Extend the lease of slots",
        handle=extend_slots,
        body=ExtendedSlots,
        status=204,
        keeps_work=True,
        example={"session": "…"},
    ),
    Endpoint(
        method="POST",
        path="/counters/release",
        summary="Release slots",
        handle=release_slots,
        body=HeldSlots,
        status=204,
        keeps_work=True,
        example={"session": "…"},
    ),
    Endpoint(
        method="POST",
        path="/counters/set",
        summary="Set how many slots count as used",
        handle=set_counter,
        body=CounterBody,
        answer=dict[str, int],
        example={"key_values": {"api": "maps"}, "count": 2},
    ),
    Endpoint(
        method="POST",
        path="/counters/query",
        summary="List counters",
        handle=query_counters,
        body=QueryBody,
        answer=CounterPage,
        example={},
    ),
]
