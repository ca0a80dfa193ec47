"""Locks, apart from what is asked of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from headrace.contract.locks import LockAnswer, LockCall
from headrace.core.requests.request import caller
from headrace.errors import InvalidOption, LockTaken
from headrace.model.checks import seconds
from headrace.model.error_messages import lock_lost
from headrace.model.fields import shown
from headrace.model.locks import lock_session, wake_word
from headrace.model.query.key_values import KeyValues
from headrace.model.times import Duration, duration_ms

DEFAULT_LEASE = 30.0
# How long a place in line counts without renewal: for so long a dead waiter blocks others.
PLACE_MS = 3000
MAX_WAIT_SECONDS = 3600.0


class LockView:
    """A lock as its caller sees it, held or not: what blocking and async code share."""

    def __init__(
        self,
        key_values: Mapping[str, Any],
        *,
        lease: Duration,
        wait: float | None,
        heartbeat: bool,
        on_lost: Callable[[], object] | None,
        session: str | None,
        client: str,
    ) -> None:
        self.key_values = KeyValues.of(key_values, "key_values")
        self.lease_ms = duration_ms("lease", lease, least=1)
        self.wait = wait_seconds(wait)
        self.heartbeat = heartbeat
        self._client_name = client
        self.session = _session(session, client)
        self._on_lost = on_lost
        self._token: int | None = None
        self._is_lost = False
        self._sure_until = 0.0

    @property
    def token(self) -> int:
        """The fencing number of the grant: higher than that of any grant of this lock before.

        Give it to whatever the lock protects, and let that refuse lower ones than it has seen.
        ``LockLost`` where the lock is not held.
        """
        if self._token is None:
            raise lock_lost(self.key_values.form)
        return self._token

    @property
    def held(self) -> bool:
        """Whether it was acquired, not released yet, and is not known to be lost."""
        return self._token is not None and not self.lost

    @property
    def lost(self) -> bool:
        """Whether another session may hold it: the store said so, or no heartbeat succeeded for as
        long as the lease is. In the second case ``extend`` finds out, and may still keep it."""
        return self._is_lost or (self._token is not None and monotonic() >= self._sure_until)

    def _call(self, *, waits: bool) -> LockCall:
        return LockCall(
            key_values=self.key_values.form,
            session=self.session,
            lease_ms=self.lease_ms,
            place_ms=PLACE_MS if waits else None,
            holder=caller(),
        )

    def _line(self) -> tuple[str, str]:
        """What it listens to while it waits, and what is the same for all in its line."""
        form = self.key_values.form
        return wake_word(form, self.session), form

    def _begun(self, answer: LockAnswer, asked_at: float) -> None:
        self._token = answer.fence
        self._is_lost = False
        # By our own clock, from before the store's began: never longer than the store thinks.
        self._sure_until = asked_at + (answer.until - answer.now) / 1000

    def _extended(self, lease_ms: int, asked_at: float) -> None:
        self._is_lost = False
        self._sure_until = asked_at + lease_ms / 1000

    def _ended(self) -> None:
        """Released: it may be acquired again, by another session."""
        self._token = None
        self._is_lost = False
        self.session = lock_session(self._client_name)

    def _forget_loss(self) -> None:
        """Before it is acquired again."""
        if self._token is not None:
            self._ended()

    def _lose(self) -> None:
        is_news, self._is_lost = not self._is_lost, True
        if is_news and self._on_lost is not None:
            self._on_lost()

    def _taken(self, answer: LockAnswer) -> LockTaken:
        by = f" {answer.holder} has it" if answer.holder else " others wait for it"
        return LockTaken(
            f"the lock {self.key_values.words} is taken:{by}. Wait longer, or try again.",
            key_values=self.key_values.form,
            holder=answer.holder,
        )

    def __repr__(self) -> str:
        state = "lost" if self.lost else "not held" if self._token is None else f"#{self._token}"
        return f"<{type(self).__name__} {self.key_values.words} {state}>"


class LockWait:
    """How long to wait for a lock, and how long until the next poll."""

    def __init__(self, wait: float | None) -> None:
        self._end = None if wait is None else monotonic() + wait

    @property
    def is_over(self) -> bool:
        return self._end is not None and monotonic() >= self._end

    def pause(self, now: int, next_at: int | None) -> float:
        """Until the lock may become free without a notification, or the time is over."""
        pause = MAX_WAIT_SECONDS if next_at is None else max(next_at - now, 1) / 1000
        return min(pause, self.left)

    @property
    def left(self) -> float:
        """How many seconds there are."""
        return MAX_WAIT_SECONDS if self._end is None else max(self._end - monotonic(), 0.0)


def wait_seconds(value: object) -> float | None:
    return None if value is None else seconds("wait", value)


def _session(given: object, client: str) -> str:
    if given is None:
        return lock_session(client)
    if not isinstance(given, str) or not given:
        raise InvalidOption(f"session is {shown(given)}: use that of a lock.", option="session")
    return given
