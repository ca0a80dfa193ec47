"""Locks: exclusive, named by key-values, each grant with a number that only grows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from msgspec import UNSET, UnsetType

from headrace.client.calls import Call
from headrace.client.queue_calls import me, same
from headrace.client.running import documented
from headrace.contract.finishing import finish
from headrace.contract.locks import LockAnswer, LockCall
from headrace.contract.store import Waiter
from headrace.core.times import Duration, duration_ms
from headrace.errors import HeadraceError, InvalidOption, LockLost, LockTaken
from headrace.model.checks import seconds
from headrace.model.keyvalues import KeyValues
from headrace.model.locks import wake_word
from headrace.model.refusals import lock_lost
from headrace.model.tokens import claim_token

if TYPE_CHECKING:
    from headrace.client.lock_operations import AsyncLockOperations, LockOperations

DEFAULT_LEASE = 30.0
# How long a place in line counts when nobody keeps it: so long a dead waiter is in the way.
PLACE_MS = 3000
LONGEST_WAIT = 3600.0


class LockView:
    """A lock as one who asks for it has it: what both kinds of code share."""

    def __init__(
        self,
        key_values: Mapping[str, Any],
        *,
        lease: Duration,
        wait: float | None,
        heartbeat: bool,
        on_lost: Callable[[], object] | None,
        session: str | None,
    ) -> None:
        self.key_values = KeyValues.of(key_values, "key_values")
        self.lease_ms = duration_ms("lease", lease, least=1)
        self.wait = _wait(wait)
        self.heartbeat = heartbeat
        self.session = _session(session)
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
        """Whether somebody else may have it: the store said so, or no heartbeat came through for
        as long as the lease is (then ``extend`` tells, and may still keep it)."""
        return self._is_lost or (self._token is not None and monotonic() >= self._sure_until)

    def _call(self, *, waits: bool) -> LockCall:
        return LockCall(
            key_values=self.key_values.form,
            session=self.session,
            lease_ms=self.lease_ms,
            place_ms=PLACE_MS if waits else None,
            holder=me(),
        )

    def _begun(self, answer: LockAnswer, asked_at: float) -> None:
        self._token = answer.fence
        self._is_lost = False
        # By our own clock, from before the store's began: never longer than the store thinks.
        self._sure_until = asked_at + (answer.until - answer.now) / 1000

    def _extended(self, lease_ms: int, asked_at: float) -> None:
        self._is_lost = False
        self._sure_until = asked_at + lease_ms / 1000

    def _ended(self) -> None:
        """Given back: it may be acquired again, by another session."""
        self._token = None
        self._is_lost = False
        self.session = claim_token()

    def _forget_loss(self) -> None:
        """Before it is acquired anew."""
        if self._token is not None:
            self._ended()

    def _lose(self) -> None:
        is_news, self._is_lost = not self._is_lost, True
        if is_news and self._on_lost is not None:
            self._on_lost()

    def _taken(self, answer: LockAnswer) -> LockTaken:
        by = f" {answer.holder} has it" if answer.holder else " others wait for it"
        return LockTaken(
            f"the lock {self.key_values.form} is taken:{by}. Wait longer, or try again.",
            key_values=self.key_values.form,
            holder=answer.holder,
        )

    def __repr__(self) -> str:
        state = "lost" if self.lost else "not held" if self._token is None else f"#{self._token}"
        return f"<{type(self).__name__} {self.key_values.form} {state}>"


class Patience:
    """How long one waits for a lock, and when the place in line has to be kept."""

    def __init__(self, wait: float | None) -> None:
        self._end = None if wait is None else monotonic() + wait
        self._keep_at = monotonic() + PLACE_MS / 3000

    @property
    def is_over(self) -> bool:
        return self._end is not None and monotonic() >= self._end

    def pause(self, now: int, next_at: int | None) -> float:
        """Until something happens by itself, or there is no time left."""
        pause = LONGEST_WAIT if next_at is None else max(next_at - now, 1) / 1000
        if self._end is not None:
            pause = min(pause, max(self._end - monotonic(), 0.0))
        return pause

    def must_keep_place(self) -> bool:
        """Whether it is time to say that we are still here."""
        is_due = monotonic() >= self._keep_at
        if is_due:
            self._keep_at = monotonic() + PLACE_MS / 3000
        return is_due


class Lock(LockView):
    """A lock to be acquired, in a ``with`` block or by hand. It is not reentrant.

    >>> with hr.lock({"site": "shop"}, lease="30s", wait=10) as lock:
    ...     deploy(fence=lock.token)
    """

    def __init__(self, client: LockOperations, key_values: Mapping[str, Any], **how: Any) -> None:
        super().__init__(key_values, **how)
        self._client = client
        # A heartbeat that is under way must not find a lock that is being given back.
        self._mutex = threading.RLock()

    def acquire(self, wait: float | UnsetType | None = UNSET) -> Self:
        """Take the lock, waiting in line for it: ``LockTaken`` when that takes longer.

        ``wait`` is in seconds, 0 for not at all, None for ever; as the lock was made with unless
        given. Who came first gets it first, in whichever process. A lock that is held already
        stays as it is.
        """
        if self.held:
            return self
        longest = self.wait if wait is UNSET else _wait(wait)
        self._forget_loss()
        try:
            answer = self._ask(waits=longest != 0)
        except BaseException:
            # Perhaps it was granted all the same; if this fails, too, time does it.
            with contextlib.suppress(HeadraceError):
                self._give_back()
            raise
        if answer.state == "taken" and longest != 0:
            answer = self._stand_in_line(answer, Patience(longest))
        if answer.state == "taken":
            raise self._taken(answer)
        if answer.until - answer.now < self.lease_ms:
            # It was ours before we asked.
            self.extend()
        if self.heartbeat:
            self._client._beats.begin(self, self.lease_ms, self._beat)
        return self

    def _stand_in_line(self, answer: LockAnswer, patience: Patience) -> LockAnswer:
        with self._client._waits.listening(wake_word(self.key_values.form)) as waiter:
            try:
                return self._wait_for_turn(answer, patience, waiter)
            finally:
                if self._token is None:
                    # Not to be in the way of others; if that fails, time does it.
                    with contextlib.suppress(HeadraceError):
                        self._give_back()

    def _wait_for_turn(self, answer: LockAnswer, patience: Patience, waiter: Waiter) -> LockAnswer:
        store, name = self._client._store, self.key_values.form
        # Looked at once more, since it may have come free before there was a waiter.
        now, next_at = answer.now, answer.now
        while answer.state == "taken" and not patience.is_over:
            waiter.wait(patience.pause(now, next_at))
            _ = self._client._calls
            is_there = True
            if patience.must_keep_place():
                is_there = self._run(store.keep_place(self.session, PLACE_MS))
            turn = self._run(store.lock_turn(name, self.session))
            if turn.state != "taken" or not is_there:
                answer = self._ask(waits=True)
            now, next_at = turn.now, turn.next_at
        return answer

    def _ask(self, *, waits: bool) -> LockAnswer:
        asked_at = monotonic()
        answer: LockAnswer = self._run(self._client._store.acquire_lock(self._call(waits=waits)))
        if answer.state == "granted":
            self._begun(answer, asked_at)
        return answer

    def extend(self, lease: Duration | None = None) -> None:
        """Keep the lock for so long from now, as long as its lease is unless given.

        ``LockLost`` if somebody else has it by now. Heartbeats do this by themselves.
        """
        _ = self.token
        lease_ms = self.lease_ms if lease is None else duration_ms("lease", lease, least=1)
        asked_at = monotonic()
        try:
            self._run(self._client._store.extend_lock(self.key_values.form, self.session, lease_ms))
        except LockLost:
            self._client._beats.end(self)
            self._lose()
            raise
        self._extended(lease_ms, asked_at)

    def release(self) -> None:
        """Give the lock back, and let the next one have it. ``LockLost`` if it was lost before.

        A lock that is not held is left alone.
        """
        if self._token is None:
            return
        if not self._give_back():
            raise lock_lost(self.key_values.form)

    def _give_back(self) -> bool:
        self._client._beats.end(self)
        with self._mutex:
            released = self._client._store.release_lock(self.key_values.form, self.session)
            was_held: bool = self._run(released)
            self._ended()
        return was_held

    def _beat(self) -> bool:
        with self._mutex:
            if self._token is None:
                return False
            try:
                self.extend()
            except LockLost:
                return False
            except HeadraceError:
                # The store is away: the next beat may come through before the lease ends.
                if self.lost:
                    self._lose()
        return True

    def _run(self, op: Any) -> Any:
        return self._client._run(Call(op, same))

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.release()
            return
        # What went wrong in the block goes before what may be wrong with the lock.
        with contextlib.suppress(HeadraceError):
            self.release()


class AsyncLock(LockView):
    """``Lock`` for async code."""

    def __init__(
        self, client: AsyncLockOperations, key_values: Mapping[str, Any], **how: Any
    ) -> None:
        super().__init__(key_values, **how)
        self._client = client

    async def acquire(self, wait: float | UnsetType | None = UNSET) -> Self:
        if self.held:
            return self
        longest = self.wait if wait is UNSET else _wait(wait)
        self._forget_loss()
        try:
            answer = await self._ask(waits=longest != 0)
        except BaseException:
            with contextlib.suppress(HeadraceError):
                await finish(self._give_back())
            raise
        if answer.state == "taken" and longest != 0:
            answer = await self._stand_in_line(answer, Patience(longest))
        if answer.state == "taken":
            raise self._taken(answer)
        if answer.until - answer.now < self.lease_ms:
            await self.extend()
        if self.heartbeat:
            self._client._beats.begin(self, self.lease_ms, self._beat)
        return self

    async def _stand_in_line(self, answer: LockAnswer, patience: Patience) -> LockAnswer:
        with self._client._waits.listening(wake_word(self.key_values.form)) as waiter:
            try:
                return await self._wait_for_turn(answer, patience, waiter)
            finally:
                if self._token is None:
                    with contextlib.suppress(HeadraceError):
                        await finish(self._give_back())

    async def _wait_for_turn(
        self, answer: LockAnswer, patience: Patience, waiter: Waiter
    ) -> LockAnswer:
        store, name = self._client._store, self.key_values.form
        now, next_at = answer.now, answer.now
        while answer.state == "taken" and not patience.is_over:
            await waiter.await_hint(patience.pause(now, next_at))
            _ = self._client._calls
            is_there = True
            if patience.must_keep_place():
                is_there = await self._run(store.keep_place(self.session, PLACE_MS))
            turn = await self._run(store.lock_turn(name, self.session))
            if turn.state != "taken" or not is_there:
                answer = await self._ask(waits=True)
            now, next_at = turn.now, turn.next_at
        return answer

    async def _ask(self, *, waits: bool) -> LockAnswer:
        asked_at = monotonic()
        # Finished even if we are cancelled: what was granted is given back then.
        asking = self._run(self._client._store.acquire_lock(self._call(waits=waits)))
        answer: LockAnswer = await finish(asking)
        if answer.state == "granted":
            self._begun(answer, asked_at)
        return answer

    async def extend(self, lease: Duration | None = None) -> None:
        _ = self.token
        lease_ms = self.lease_ms if lease is None else duration_ms("lease", lease, least=1)
        asked_at = monotonic()
        try:
            await self._run(
                self._client._store.extend_lock(self.key_values.form, self.session, lease_ms)
            )
        except LockLost:
            self._client._beats.end(self)
            self._lose()
            raise
        self._extended(lease_ms, asked_at)

    async def release(self) -> None:
        if self._token is None:
            return
        if not await finish(self._give_back()):
            raise lock_lost(self.key_values.form)

    async def _give_back(self) -> bool:
        self._client._beats.end(self)
        released = self._client._store.release_lock(self.key_values.form, self.session)
        was_held: bool = await self._run(released)
        self._ended()
        return was_held

    async def _beat(self) -> bool:
        if self._token is None:
            return False
        try:
            await self.extend()
        except LockLost:
            return False
        except HeadraceError:
            if self.lost:
                self._lose()
        return True

    async def _run(self, op: Any) -> Any:
        return await self._client._run(Call(op, same))

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            await self.release()
            return
        with contextlib.suppress(HeadraceError):
            await self.release()


def _wait(value: object) -> float | None:
    return None if value is None else seconds("wait", value)


def _session(given: object) -> str:
    if given is None:
        return claim_token()
    if not isinstance(given, str) or not given:
        raise InvalidOption(f"session is {given!r:.80}: use that of a lock.", option="session")
    return given


documented(AsyncLock, Lock)
