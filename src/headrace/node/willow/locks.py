"""Willow's locks, named by key-values.

The id of a lock is its name. The id of a session also says how long its lease is, so that a
heartbeat can restart it.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

from headrace.contract.locks import LockRow
from headrace.errors import InvalidKeyValues, LockLost, LockTaken, UnknownLock
from headrace.model.error_messages import lock_lost
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.times import MAX_MS
from headrace.node.http import Response
from headrace.node.resources.long_polls import LeftBehind, while_connected
from headrace.node.willow.numbers import nanoseconds, read_number
from headrace.node.willow.objects import Object, parts
from headrace.node.willow.route import Call, WillowRoute, wait_of

DEFAULT_LEASE_MS = 5000
PAGE = 1000


class LockSession(NamedTuple):
    """The holder of a lock, and how long a heartbeat extends that."""

    name: str
    lease_ms: int

    @property
    def id(self) -> str:
        """The id for clients."""
        return f"{self.name}.{self.lease_ms}"


async def obtain_lock(call: Call) -> Any:
    """Wait for a lock, for as long as the client stays."""
    about, properties = parts(call.body, {"KeyValues": ()}, {"Timeout": ()})
    lease_ms = DEFAULT_LEASE_MS
    if properties is not None and "Timeout" in properties:
        lease_ms = properties.milliseconds("Timeout")
    pairs = about.key_values("KeyValues")
    lock = call.hr.lock(pairs, lease=lease_ms / 1000, heartbeat=False, wait=wait_of(call))
    try:
        await while_connected(call, lock.acquire())
    except LockTaken:
        return Response(status=204)
    except LeftBehind:
        await lock.release()
        raise
    state = {
        "LockID": _lock_id(pairs.form),
        "SessionID": LockSession(lock.session, lease_ms).id,
        "TimeTillExipre": nanoseconds(lease_ms),
        "LocksHeldOrWaiting": 1,
    }
    spec = {
        "DBDefinition": {"KeyValues": pairs.to_json()},
        "Properties": {"Timeout": nanoseconds(lease_ms)},
    }
    return {"Spec": spec, "State": state}


async def heartbeat_lock(call: Call) -> None:
    session = _session(call)
    form = _form_of(call["lock"])
    if form is not None and session is not None:
        try:
            await call.store.arun(call.store.locks.extend(form, session.name, session.lease_ms))
        except LockLost:
            pass
        else:
            return
    if form is None or not await _rows(call, Query.exactly(KeyValues.read(form))):
        raise UnknownLock("there is no such lock: nobody holds it. Obtain it again.")
    raise lock_lost(form)


async def release_lock(call: Call) -> None:
    """Release a lock. Whether the session held it, the answer does not say."""
    session, form = _session(call), _form_of(call["lock"])
    if form is not None and session is not None:
        await call.store.arun(call.store.locks.release(form, session.name))


async def query_locks(call: Call) -> list[Any]:
    return [_shown(row) for row in await _rows(call, Query.from_json(call.body))]


async def _rows(call: Call, query: Query) -> list[LockRow]:
    found: list[LockRow] = []
    after = ""
    while True:
        page = await call.store.arun(call.store.locks.list(query.form, after, PAGE))
        found += page
        if len(page) < PAGE:
            return found
        after = page[-1].key_values


def _session(call: Call) -> LockSession | None:
    """The session of a request; None for what was never the id of one."""
    text = Object(call.body, {"SessionID": ()}).text("SessionID")
    name, _, lease = text.rpartition(".")
    lease_ms = read_number(lease, MAX_MS)
    return LockSession(name, lease_ms) if name and lease_ms else None


def _lock_id(form: str) -> str:
    return base64.urlsafe_b64encode(form.encode()).rstrip(b"=").decode()


def _form_of(id: str) -> str | None:
    """The lock of an id; None if none can have that."""
    try:
        form = base64.urlsafe_b64decode(id + "=" * (-len(id) % 4)).decode()
        return KeyValues.of(KeyValues.read(form)).form
    except (binascii.Error, ValueError, InvalidKeyValues):
        return None


def _shown(row: LockRow) -> Any:
    is_held = row.holder is not None
    return {
        "Spec": {"DBDefinition": {"KeyValues": KeyValues.read(row.key_values).to_json()}},
        "State": {
            "LockID": _lock_id(row.key_values),
            # The proof of ownership is its holder's only.
            "SessionID": "",
            "TimeTillExipre": nanoseconds(max(row.until - row.now, 0)) if is_held else 0,
            "LocksHeldOrWaiting": is_held + row.waiting,
        },
    }


_LOCKS = "/v1/locks"
_LOCK = f"{_LOCKS}/{{lock}}"

ROUTES = [
    WillowRoute(ways=(("POST", _LOCKS),), handle=obtain_lock),
    WillowRoute(ways=(("GET", _LOCKS), ("POST", f"{_LOCKS}/query")), handle=query_locks),
    WillowRoute(ways=(("POST", f"{_LOCK}/heartbeat"),), handle=heartbeat_lock, keeps_work=True),
    WillowRoute(ways=(("DELETE", _LOCK),), handle=release_lock, status=204, keeps_work=True),
]
