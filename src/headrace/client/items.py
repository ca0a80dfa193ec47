"""Items as users see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.contract.items import FinishedItem, Outcome
from headrace.core.outcomes import OutcomeKind, Then, outcome
from headrace.model import error_messages
from headrace.model.codec import decode_bytes, decode_value
from headrace.model.failures import Failure
from headrace.model.fields import shown
from headrace.model.query.key_values import KeyValues
from headrace.model.queues.dead_letter import failure_in
from headrace.model.queues.items import BYTES, ItemState, State
from headrace.model.times import Duration, Moment, moment_of

Error = BaseException | Failure | str


class Item:
    """An item as it was when it was claimed or read. It does not change.

    ``token`` proves the claim; an item that was only read has none. The last
    four are there once it has ended: ``ended_at``, ``cause``, ``fingerprint``, ``title``.
    """

    __slots__ = ("_ended", "_max_body", "_payload", "_state", "token")

    def __init__(
        self, state: ItemState | FinishedItem, *, max_body: int, is_claimed: bool = False
    ) -> None:
        self._ended = state if isinstance(state, FinishedItem) else None
        self._state = state.item if isinstance(state, FinishedItem) else state
        self._payload: Any = UNSET
        self._max_body = max_body
        # Code that reads an item in flight must not settle it by accident.
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
        """How many times it was claimed since it last succeeded, this time included."""
        return self._state.attempts

    @property
    def crashes(self) -> int:
        """How many of those claims ran out of time."""
        return self._state.crashes

    @property
    def times_settled(self) -> int:
        """How many times it was settled in its life: one that is rescheduled daily counts one a day."""
        return self._state.iterations

    @property
    def created_at(self) -> datetime:
        return moment_of(self._state.created_at)

    @property
    def due_at(self) -> datetime:
        """When it is, or was, due."""
        return moment_of(self._state.next_execution)

    @property
    def last_settled_at(self) -> datetime | None:
        """When it was last settled."""
        return moment(self._state.last_iteration)

    @property
    def claimed_at(self) -> datetime | None:
        return moment(self._state.claimed_at)

    @property
    def deadline(self) -> datetime | None:
        """When the claim ends, as it was made: extending it does not change this view."""
        return moment(self._state.lease_until)

    @property
    def lease_ms(self) -> int:
        """How long the claim was made for."""
        return (self._state.lease_until or 0) - (self._state.claimed_at or 0)

    @property
    def worker(self) -> str | None:
        """The worker or process that has claimed it."""
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
        kind: OutcomeKind,
        *,
        payload: Any = UNSET,
        at: Moment | None = None,
        delay: Duration | None = None,
        error: Error | None = None,
        then: Then = (),
    ) -> Outcome:
        """An outcome of it for ``settle``; nothing is sent yet. ``ItemLost`` if it is not claimed.

        Handlers make one of their item to settle it in a transaction with rows of their own.
        ``kind`` is complete, reschedule, reject, kill, drop, release or delay_channel.
        """
        if self.token is None:
            raise error_messages.item_lost(self.queue, self.id)
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
        return isinstance(other, Item) and (self._state, self._ended, self.token) == (
            other._state,
            other._ended,
            other.token,
        )

    def __hash__(self) -> int:
        return hash((self._state.queue, self._state.id))

    def __repr__(self) -> str:
        subject = f" {shown(self.subject)}" if self.subject is not None else ""
        name = type(self).__name__
        return f"<{name} {self.id}{subject} of {shown(self.queue)}, {self.state.name.lower()}>"


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else moment_of(ms)
