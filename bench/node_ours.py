"""A client of a node, or of a store itself, as a player: a worker, and claims that wait."""

from __future__ import annotations

from bench import queue_ours
from bench.contender import Handle

WAIT_SECONDS = 10.0


class Player(queue_ours.Player):
    """As there; an item goes to a claim that waits for it."""

    def serve(self, handle: Handle) -> None:
        queue = self._hr.queue(self.queue)
        while True:
            for item in queue.claim(1, lease=queue_ours.LEASE_SECONDS, wait=WAIT_SECONDS):
                handle(item.payload)
                item.complete()
