"""Slots: what user code counts beside running items, under the same limits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from headrace.client.calls import Call
from headrace.client.locks import LONGEST_WAIT
from headrace.client.plans import Plan
from headrace.client.queue_calls import me, same
from headrace.client.running import documented
from headrace.contract.counters import ROOM, CounterAnswer, CounterCall
from headrace.contract.finishing import finish
from headrace.contract.store import Store
from headrace.core.limits import usage_of
from headrace.core.times import Duration, duration_ms
from headrace.errors import HeadraceError, LimitReached, SlotsLost
from headrace.model.checks import positive, seconds
from headrace.model.keyvalues import KeyValues
from headrace.model.refusals import slots_lost
from headrace.model.tokens import claim_token

if TYPE_CHECKING:
    from headrace.client.counter_operations import AsyncCounterOperations, CounterOperations

MOST_ENDED = 1000


class SlotsView:
    """So many slots of some key-values, as the one who has them sees them."""

    def __init__(self, key_values: Mapping[str, Any], n: int, lease: Duration) -> None:
        self.key_values = KeyValues.of(key_values, "key_values")
        self.n = positive("n", n)
        self.lease_ms = duration_ms("lease", lease, least=1)
        self.session = claim_token()
        self._is_held = self._is_lost = False
        self._sure_until = 0.0

    @property
    def held(self) -> bool:
        """Whether they were not given back yet, and are not known to be lost."""
        return self._is_held and not self.lost

    @property
    def lost(self) -> bool:
        """Whether somebody else may have them: the store said so, or no heartbeat came through
        for as long as the lease is (then ``extend`` tells, and may still keep them)."""
        return self._is_lost or (self._is_held and monotonic() >= self._sure_until)

    def call(self, *, waits: bool) -> CounterCall:
        """What is asked of the store."""
        return CounterCall(
            key_values=self.key_values.form,
            session=self.session,
            count=self.n,
            lease_ms=self.lease_ms,
            holder=me(),
            waits=waits,
        )

    def begun(self, asked_at: float) -> None:
        """They were granted."""
        self._is_held = True
        # By our own clock, from before the store's began: never longer than the store thinks.
        self._sure_until = asked_at + self.lease_ms / 1000

    def refused(self, answer: CounterAnswer) -> LimitReached:
        """The error for those who do not get them."""
        assert answer.refusal is not None
        usage = usage_of(answer.refusal)
        return LimitReached(
            f"there is no room for {self.n} more of {self.key_values.form}: {usage}. "
            "Wait longer, or try again when something is given back.",
            key_values=self.key_values.form,
            usage=usage,
        )

    def __repr__(self) -> str:
        state = "lost" if self.lost else "held" if self._is_held else "given back"
        return f"<{type(self).__name__} {self.n} of {self.key_values.form}, {state}>"


class Slots(SlotsView):
    """Slots that were acquired: give them back, or leave the ``with`` block.

    >>> with hr.acquire({"api": "maps"}, lease="30s", wait=10):
    ...     call_the_api()
    """

    def __init__(
        self, client: CounterOperations, key_values: Mapping[str, Any], n: int, lease: Duration
    ) -> None:
        super().__init__(key_values, n, lease)
        self._client = client
        # A heartbeat that is under way must not find slots that are being given back.
        self._mutex = threading.RLock()

    def _acquire(self, wait: float | None, *, heartbeat: bool) -> Self:
        pause = Pauses(wait)
        try:
            answer, asked_at = self._ask(waits=False)
            if answer.state == "full" and not pause.is_over:
                with self._client._waits.listening(ROOM) as waiter:
                    # Asked once more, since there may be room by now: from here on we are woken.
                    answer, asked_at = self._ask(waits=True)
                    while answer.state == "full" and not pause.is_over:
                        waiter.wait(pause.length(answer))
                        _ = self._client._calls
                        answer, asked_at = self._ask(waits=True)
        except BaseException:
            # Perhaps they were granted all the same; if this fails, too, time does it.
            with contextlib.suppress(HeadraceError):
                self._client._run(Call(self._client._store.give_back(self.session), same))
            raise
        if answer.state == "full":
            raise self.refused(answer)
        self.begun(asked_at)
        if heartbeat:
            self._client._beats.begin(self, self.lease_ms, self._beat)
        return self

    def _ask(self, *, waits: bool) -> tuple[CounterAnswer, float]:
        asked_at = monotonic()
        return self._client._follow(asking(self._client._store, self.call(waits=waits))), asked_at

    def extend(self, lease: Duration | None = None) -> None:
        """Keep them for so long from now, as long as their lease is unless given.

        ``SlotsLost`` if they were given back meanwhile. Heartbeats do this by themselves.
        """
        if not self._is_held:
            raise slots_lost()
        lease_ms = self.lease_ms if lease is None else duration_ms("lease", lease, least=1)
        asked_at = monotonic()
        op = self._client._store.extend_counter(self.session, lease_ms)
        try:
            self._client._run(Call(op, same))
        except SlotsLost:
            self._client._beats.end(self)
            self._is_lost = True
            raise
        self._is_lost = False
        self._sure_until = asked_at + lease_ms / 1000

    def give_back(self) -> None:
        """Let others have them. ``SlotsLost`` if they were lost before; once is enough."""
        if not self._is_held:
            return
        self._client._beats.end(self)
        with self._mutex:
            op = self._client._store.give_back(self.session)
            was_held = self._client._run(Call(op, same))
            self._is_held = False
        if not was_held:
            raise slots_lost()

    def _beat(self) -> bool:
        with self._mutex:
            if not self._is_held:
                return False
            try:
                self.extend()
            except SlotsLost:
                return False
            except HeadraceError:
                # The store is away: the next beat may come through before the lease ends.
                return True
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.give_back()
            return
        # What went wrong in the block goes before what may be wrong with the slots.
        with contextlib.suppress(HeadraceError):
            self.give_back()


class AsyncSlots(SlotsView):
    """``Slots`` for async code."""

    def __init__(
        self,
        client: AsyncCounterOperations,
        key_values: Mapping[str, Any],
        n: int,
        lease: Duration,
    ) -> None:
        super().__init__(key_values, n, lease)
        self._client = client

    async def _acquire(self, wait: float | None, *, heartbeat: bool) -> Self:
        pause = Pauses(wait)
        try:
            answer, asked_at = await finish(self._ask(waits=False))
            if answer.state == "full" and not pause.is_over:
                with self._client._waits.listening(ROOM) as waiter:
                    answer, asked_at = await finish(self._ask(waits=True))
                    while answer.state == "full" and not pause.is_over:
                        await waiter.await_hint(pause.length(answer))
                        _ = self._client._calls
                        answer, asked_at = await finish(self._ask(waits=True))
        except BaseException:
            giving = self._client._run(Call(self._client._store.give_back(self.session), same))
            with contextlib.suppress(HeadraceError):
                await finish(giving)
            raise
        if answer.state == "full":
            raise self.refused(answer)
        self.begun(asked_at)
        if heartbeat:
            self._client._beats.begin(self, self.lease_ms, self._beat)
        return self

    async def _ask(self, *, waits: bool) -> tuple[CounterAnswer, float]:
        asked_at = monotonic()
        plan = asking(self._client._store, self.call(waits=waits))
        return await self._client._follow(plan), asked_at

    async def extend(self, lease: Duration | None = None) -> None:
        if not self._is_held:
            raise slots_lost()
        lease_ms = self.lease_ms if lease is None else duration_ms("lease", lease, least=1)
        asked_at = monotonic()
        op = self._client._store.extend_counter(self.session, lease_ms)
        try:
            await self._client._run(Call(op, same))
        except SlotsLost:
            self._client._beats.end(self)
            self._is_lost = True
            raise
        self._is_lost = False
        self._sure_until = asked_at + lease_ms / 1000

    async def give_back(self) -> None:
        if not self._is_held:
            return
        self._client._beats.end(self)
        op = self._client._store.give_back(self.session)
        was_held = await finish(self._client._run(Call(op, same)))
        self._is_held = False
        if not was_held:
            raise slots_lost()

    async def _beat(self) -> bool:
        if not self._is_held:
            return False
        try:
            await self.extend()
        except SlotsLost:
            return False
        except HeadraceError:
            return True
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            await self.give_back()
            return
        with contextlib.suppress(HeadraceError):
            await self.give_back()


class Pauses:
    """How long one waits for room."""

    def __init__(self, wait: float | None) -> None:
        self._end = None if wait is None else monotonic() + seconds("wait", wait)

    @property
    def is_over(self) -> bool:
        return self._end is not None and monotonic() >= self._end

    def length(self, answer: CounterAnswer) -> float:
        """Until time may bring room, or there is no time left."""
        left = LONGEST_WAIT if self._end is None else max(self._end - monotonic(), 0.0)
        if answer.next_at is None:
            return left
        return min(left, max(answer.next_at - answer.now, 1) / 1000)


def asking(store: Store, call: CounterCall) -> Plan[CounterAnswer]:
    """Ask for slots; if there is no room, take back what the dead hold, and ask once more."""
    answer: CounterAnswer = yield store.acquire_counter(call)
    is_due = answer.next_at is not None and answer.next_at <= answer.now
    if answer.state == "full" and is_due and (yield store.end_counters(MOST_ENDED)):
        answer = yield store.acquire_counter(call)
    return answer


documented(AsyncSlots, Slots)
