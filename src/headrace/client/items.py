"""Items as users see them, and what can be said of one that was claimed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from headrace.contract.items import EndedItem, Outcome
from headrace.core.outcomes import Said, Then, outcome
from headrace.core.times import Duration, Moment, moment_of
from headrace.model import refusals
from headrace.model.codec import decode_bytes, decode_value
from headrace.model.failures import Failure
from headrace.model.items import BYTES, ItemState, State
from headrace.model.keyvalues import KeyValues
from headrace.model.letters import failure_in

if TYPE_CHECKING:
    from headrace.client.item_claims import AsyncItemClaims, ItemClaims

Error = BaseException | Failure | str


class ItemView:
    """An item as it was when it was handed out or looked at. It does not change.

    ``token`` proves that a claim is ours; an item that was only looked at has none. The last
    four are there once it has ended: ``ended_at``, ``cause``, ``fingerprint``, ``title``.
    """

    __slots__ = ("_ended", "_max_body", "_payload", "_state", "token")

    def __init__(
        self, state: ItemState | EndedItem, *, max_body: int, is_claimed: bool = False
    ) -> None:
        self._ended = state if isinstance(state, EndedItem) else None
        self._state = state.item if isinstance(state, EndedItem) else state
        self._payload: Any = UNSET
        self._max_body = max_body
        # Whoever looks at an item in flight must not be able to settle it by accident.
        self.token = self._state.token if is_claimed else None

    @property
    def id(self) -> int:
        return self._state.id

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self._state.queue

    @property
    def state(self) -> State:
        return State(self._state.state)

    @property
    def subject(self) -> str | None:
        return self._state.subject

    @property
    def channel(self) -> KeyValues | None:
        """The key-values of its channel, if it is in one."""
        form = self._state.key_values
        return None if form is None else KeyValues.read(form)

    @property
    def payload(self) -> Any:
        """What was pushed: a JSON value, or bytes."""
        if self._payload is UNSET:
            state = self._state
            decode = decode_bytes if state.format == BYTES else decode_value
            self._payload = decode(state.payload, state.queue, state.id)
        return self._payload

    @property
    def headers(self) -> dict[str, str]:
        if self._state.headers is None:
            return {}
        found: dict[str, str] = msgspec.json.decode(self._state.headers)
        return found

    @property
    def priority(self) -> int:
        return self._state.priority

    @property
    def attempts(self) -> int:
        """How many times it was handed out since it last succeeded, this time included."""
        return self._state.attempts

    @property
    def crashes(self) -> int:
        """How many of those claims ran out of time."""
        return self._state.crashes

    @property
    def iterations(self) -> int:
        """How many times it was settled in its life."""
        return self._state.iterations

    @property
    def created_at(self) -> datetime:
        return moment_of(self._state.created_at)

    @property
    def next_execution(self) -> datetime:
        """When it is, or was, due."""
        return moment_of(self._state.next_execution)

    @property
    def last_iteration(self) -> datetime | None:
        """When it was last settled."""
        return _moment(self._state.last_iteration)

    @property
    def claimed_at(self) -> datetime | None:
        return _moment(self._state.claimed_at)

    @property
    def deadline(self) -> datetime | None:
        """When the claim ends, as it was made: extending it does not change this view."""
        return _moment(self._state.lease_until)

    @property
    def lease_ms(self) -> int:
        """How long the claim was made for."""
        return (self._state.lease_until or 0) - (self._state.claimed_at or 0)

    @property
    def worker(self) -> str | None:
        """Who has claimed it."""
        return self._state.worker

    @property
    def last_error(self) -> Failure | None:
        return failure_in(self._state)

    @property
    def ended_at(self) -> datetime | None:
        return None if self._ended is None else moment_of(self._ended.ended_at)

    @property
    def cause(self) -> str | None:
        """Why it ended: completed, rejected, killed or worker lost."""
        return None if self._ended is None else self._ended.cause

    @property
    def fingerprint(self) -> str | None:
        """Equal for dead items that failed alike."""
        return None if self._ended is None else self._ended.fingerprint

    @property
    def title(self) -> str | None:
        """The error of a dead item without what differs from one occurrence to the next."""
        return None if self._ended is None else self._ended.title

    def outcome(
        self,
        kind: Said,
        *,
        payload: Any = UNSET,
        at: Moment | None = None,
        delay: Duration | None = None,
        error: Error | None = None,
        then: Then = (),
    ) -> Outcome:
        """What is to be said of it, for ``settle``: nothing is sent yet.

        ``kind`` is complete, reschedule, reject, kill, drop, release or hold.
        """
        if self.token is None:
            raise refusals.item_lost(self.queue, self.id)
        return outcome(
            self.id,
            self.token,
            kind,
            payload=payload,
            at=at,
            delay=delay,
            error=error,
            then=then,
            max_body=self._max_body,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ItemView) and (self._state, self._ended, self.token) == (
            other._state,
            other._ended,
            other.token,
        )

    def __hash__(self) -> int:
        return hash((self._state.queue, self._state.id))

    def __repr__(self) -> str:
        subject = f" {self.subject!r}" if self.subject is not None else ""
        name = type(self).__name__
        return f"<{name} {self.id}{subject} of {self.queue!r}, {self.state.name.lower()}>"


class Item(ItemView):
    """An item for blocking code. Each way to settle it raises ``ItemLost`` unless it is ours,
    and ``ItemGone``, which is one, if its channel was deleted.

    >>> for item in queue.claim(10):
    ...     send(item.payload)
    ...     item.complete()

    ``then`` is a list of ``headrace.Commit`` and ``headrace.Push`` that are written in the same
    transaction, or not at all if the item is lost.
    """

    __slots__ = ("_home",)

    def __init__(
        self, home: ItemClaims, state: ItemState | EndedItem, *, is_claimed: bool = False
    ) -> None:
        super().__init__(state, max_body=home.max_body, is_claimed=is_claimed)
        self._home = home

    def complete(self, *, payload: Any = UNSET, then: Then = ()) -> None:
        """It is done; a payload replaces its own in what is kept."""
        self._home._settle_one(self.outcome("complete", payload=payload, then=then))

    def reschedule(
        self,
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
        payload: Any = UNSET,
        then: Then = (),
    ) -> datetime:
        """It is done for now and comes again; returns when. Its attempts begin anew.

        Without a time the queue's ``reschedule_delay`` decides.
        """
        said = self.outcome("reschedule", at=at, delay=delay, payload=payload, then=then)
        return moment_of(self._home._settle_one(said).due or 0)

    def reject(
        self,
        error: Error | None = None,
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
        payload: Any = UNSET,
        then: Then = (),
    ) -> datetime | None:
        """It failed; returns when it comes again, None if it is dead now.

        Without a time the queue's ``reject_delay`` or ``backoff`` decides.
        """
        said = self.outcome("reject", error=error, at=at, delay=delay, payload=payload, then=then)
        return _moment(self._home._settle_one(said).due)

    def kill(self, error: Error | None = None, *, payload: Any = UNSET, then: Then = ()) -> None:
        """It is dead, whatever attempts it had left."""
        self._home._settle_one(self.outcome("kill", error=error, payload=payload, then=then))

    def drop(self, *, then: Then = ()) -> None:
        """Remove it without a trace; its subject is free again."""
        self._home._settle_one(self.outcome("drop", then=then))

    def release(self) -> None:
        """Hand it back untouched, as if it had not been claimed."""
        self._home._settle_one(self.outcome("release"))

    def hold(
        self, *, at: Moment | None = None, delay: Duration | None = None, then: Then = ()
    ) -> datetime:
        """Hand it back, and let nothing of its channel run before a time; returns that.

        For an API that says "retry after": no attempt is counted, and all items of the channel
        wait. An item that is in no channel waits alone.
        """
        said = self.outcome("hold", at=at, delay=delay, then=then)
        return moment_of(self._home._settle_one(said).due or 0)

    def extend(self, lease: Duration | None = None) -> None:
        """Keep it for so long from now; without a time, for as long as the claim was made for."""
        if not self._home.extend([self], lease):
            raise self._home._lost(self)


class AsyncItem(ItemView):
    """``Item`` for async code."""

    __slots__ = ("_home",)

    def __init__(
        self, home: AsyncItemClaims, state: ItemState | EndedItem, *, is_claimed: bool = False
    ) -> None:
        super().__init__(state, max_body=home.max_body, is_claimed=is_claimed)
        self._home = home

    async def complete(self, *, payload: Any = UNSET, then: Then = ()) -> None:
        await self._home._settle_one(self.outcome("complete", payload=payload, then=then))

    async def reschedule(
        self,
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
        payload: Any = UNSET,
        then: Then = (),
    ) -> datetime:
        said = self.outcome("reschedule", at=at, delay=delay, payload=payload, then=then)
        return moment_of((await self._home._settle_one(said)).due or 0)

    async def reject(
        self,
        error: Error | None = None,
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
        payload: Any = UNSET,
        then: Then = (),
    ) -> datetime | None:
        said = self.outcome("reject", error=error, at=at, delay=delay, payload=payload, then=then)
        return _moment((await self._home._settle_one(said)).due)

    async def kill(
        self, error: Error | None = None, *, payload: Any = UNSET, then: Then = ()
    ) -> None:
        said = self.outcome("kill", error=error, payload=payload, then=then)
        await self._home._settle_one(said)

    async def drop(self, *, then: Then = ()) -> None:
        await self._home._settle_one(self.outcome("drop", then=then))

    async def release(self) -> None:
        await self._home._settle_one(self.outcome("release"))

    async def hold(
        self, *, at: Moment | None = None, delay: Duration | None = None, then: Then = ()
    ) -> datetime:
        said = self.outcome("hold", at=at, delay=delay, then=then)
        return moment_of((await self._home._settle_one(said)).due or 0)

    async def extend(self, lease: Duration | None = None) -> None:
        if not await self._home.extend([self], lease):
            raise await self._home._lost(self)


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else moment_of(ms)
