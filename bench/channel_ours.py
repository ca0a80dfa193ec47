"""Headrace's channels as a player: items of one queue in many channels, claimed by turns."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

from bench import queue_ours
from bench.contender import Figures, Pace

from headrace import Doc, where

SELECTED = where(os="linux")


class Player(queue_ours.Player):
    """All that is pushed goes to channels that are selected, one after another.

    Others that are not selected have an item each, which waits for ever.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._options: dict[str, Any] = {}
        self._names: Any = None

    def play(
        self,
        channels: int,
        *,
        others: int = 0,
        quantum: int = 10,
        registered: bool = True,
        selects: bool = True,
    ) -> None:
        """How many channels there are, and how claims take from them."""
        self._names = cycle([{"os": "linux", "n": n} for n in range(channels)])
        self._options = {"select": SELECTED, "quantum": quantum} if selects else {}
        if registered and selects:
            self._hr.queues.create(self.queue, exist_ok=True)
            self._hr.queue(self.queue).selections.register(SELECTED)
        for start in range(0, others, 1000):
            stop = min(start + 1000, others)
            self._push([0] * (stop - start), [{"os": "mac", "n": n} for n in range(start, stop)])

    def push(self, bodies: list[Any]) -> None:
        if self._names is None:
            super().push(bodies)
        else:
            self._push(bodies, list(islice(self._names, len(bodies))))

    def _push(self, bodies: list[Any], channels: list[dict[str, Any]]) -> None:
        documents = [Doc(body, channel=name) for body, name in zip(bodies, channels, strict=True)]
        self._hr.push_many(self.queue, documents)

    def take(self, size: int) -> int:
        return len(self._take(size))

    def _take(self, size: int) -> list[Any]:
        queue = self._hr.queue(self.queue)
        items = queue.claim(size, lease=queue_ours.LEASE_SECONDS, **self._options)
        for item in items:
            _ = item.payload
        if items:
            queue.complete(items)
        return items

    def claims_rate(self, size: int, seconds: float) -> Figures:
        """Items claimed and settled in that time; as many were pushed before as will do.

        One that had to wait for its turn may find that the others have taken all. That it got
        nothing does not say so: others may have locked what there is.
        """
        pace = Pace(seconds, self.warm)
        while not pace.is_over:
            taken = self.take(size)
            if not taken and not self._hr.queues.stats(self.queue)[0].pending:
                break
            pace.count(taken)
        if not pace.counted:
            raise RuntimeError("the queue ran empty")
        return {"taken": float(pace.counted)}

    def lengthen(self, count: int) -> None:
        """One long channel."""
        for bodies in self.fillings(count):
            self._hr.push_many(self.queue, bodies, channel={"os": "linux", "size": "long"})

    def small_ones_done(self, channels: int, each: int, size: int) -> Figures:
        """How many items are handed out until those of small channels are, over how many."""
        names = [{"os": "linux", "size": "small", "n": n} for n in range(channels)] * each
        self._push([0] * len(names), names)
        left, handed_out = len(names), 0
        while left:
            items = self._take(size)
            handed_out += len(items)
            left -= sum(item.channel["size"].plain == "small" for item in items)
        return {"ratio": handed_out / len(names)}
