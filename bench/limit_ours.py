"""Headrace's limits as a player: items in channels, counted by rules."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from bench import channel_ours, queue_ours
from bench.contender import Figures, Handle, stamped

from headrace import ANY, ClaimedItem, where
from headrace.contract.limits import RuleRow
from headrace.contract.op import Op
from headrace.core.limits import rule_of

HANDLER_SECONDS = 0.02
SETTLING_SECONDS = 0.3
FAR = 100_000
"""A limit that all workers together stay far away from."""

Span = tuple[int, int]

HELD, NEXT = ({"os": "linux", "role": role} for role in ("held", "next"))
HOLDERS, WAITERS = (where(role=names["role"]) for names in (HELD, NEXT))
PATIENCE_SECONDS = 15.0

# The last counts each channel apart, the other two all of them together.
MATCHING: tuple[Mapping[str, Any], ...] = ({"os": "linux"}, {"os": ANY}, {"n": ANY})


class Player(channel_ours.Player):
    """Channels as there; what counts their items is said before they are filled."""

    _held: ClaimedItem
    _pushed = 0

    def apply(self, rules: int, others: int = 0) -> None:
        """Rules that match all channels and never bind, besides others that match none."""
        wanted = [(group_by, FAR) for group_by in MATCHING[:rules]]
        wanted += [({"customer": n}, 1) for n in range(others)]
        rows = [
            RuleRow.of(rule_of(group_by, limit, queue=None, on="running", per=None, name=None))
            for group_by, limit in wanted
        ]
        # In one call: each call would count the existing items again.
        store = self._hr._store  # noqa: SLF001  # clients make one rule at a time
        store.run(store.limits.create(rows))

    def bind(self, limit: int) -> None:
        """A rule that does bind: no more than that at a time."""
        self._hr.limits.create({"os": "linux"}, limit, name="narrow")

    def hold(self, **marks: Any) -> None:
        """Claim the only slot, and push an item that has to wait for it."""
        queue = self._hr.queue(self.queue)
        queue.push(0, channel=HELD)
        # It may have to wait for the slot of the last handler.
        [self._held] = queue.claim(
            1, lease=queue_ours.LEASE_SECONDS, wait=PATIENCE_SECONDS, select=HOLDERS
        )
        body = stamped(marks)
        self._pushed = body["sent"]
        queue.push(body, channel=NEXT)

    def free(self) -> int:
        """Give the slot to the item that waits; how long it had to, in nanoseconds."""
        freed = time.monotonic_ns()
        self._held.complete()
        return freed - self._pushed

    def serve(self, handle: Handle) -> None:
        self._hr.start_worker(self.queue, lambda item: handle(item.payload), select=WAITERS)
        threading.Event().wait()

    def worked(self, size: int, start: int, end: int) -> Figures:
        """How many no-op items a worker handles from one time to another, of a full queue."""
        taken = 0

        def handle(item: ClaimedItem) -> None:
            nonlocal taken
            _ = item.payload
            if start <= time.monotonic_ns() < end:
                taken += 1

        wishes = {name: value for name, value in self._options.items() if name == "select"}
        worker = self._hr.start_worker(self.queue, handle, chunk=size, concurrency=1, **wishes)
        time.sleep(max(0, end - time.monotonic_ns()) / 1e9)
        worker.stop()
        return {"taken": float(taken)}

    def work(self, concurrency: int, seconds: float) -> dict[str, Any]:
        """Work for a while: from when to when it counts, when slots were taken and given back,
        and when handlers began and ended."""
        handlers: list[Span] = []

        def handle(item: ClaimedItem) -> None:
            start = time.monotonic_ns()
            time.sleep(HANDLER_SECONDS)
            handlers.append((start, time.monotonic_ns()))

        slots = self._watched()
        worker = self._hr.start_worker(self.queue, handle, concurrency=concurrency)
        time.sleep(SETTLING_SECONDS)
        start = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        worker.stop()
        return {"start": start, "end": end, "slots": slots, "handlers": handlers}

    def _watched(self) -> list[Span]:
        """From when to when items are in flight: from the answer to the claim until the answer to
        the settle."""
        found: list[Span] = []
        out: dict[int, int] = {}
        store = self._hr._store  # noqa: SLF001  # the worker's calls are timed from below

        def run(op: Op[Any]) -> Any:
            answer = type(store).run(store, op)
            now = time.monotonic_ns()
            if op.name == "queues.claim":
                out.update((item.id, now) for item in answer.items)
            elif op.name == "queues.settle":
                found.extend((out.pop(settled.item), now) for settled in answer)
            return answer

        store.run = run
        return found

    def waiting(self) -> int:
        [stats] = self._hr.queues.stats(self.queue, exact=True)
        return stats.pending
