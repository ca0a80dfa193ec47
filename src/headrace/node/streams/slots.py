"""How many streams a node has, and each of its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.node.guard import LOCAL, RequestIdentity
from headrace.node.http import HttpError

MAX_STREAMS = 1000
MAX_STREAMS_PER_TOKEN = 256


class StreamSlots:
    """Counts everything that stays open: notifications, streams of records, sockets and what these
    subscribe to. Refusals are raised."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def check(self, identity: RequestIdentity) -> None:
        """Raise if an identity cannot have another stream."""
        limit = MAX_STREAMS if identity == LOCAL else MAX_STREAMS_PER_TOKEN
        if self._held[identity.name] >= limit or self._held.total() >= MAX_STREAMS:
            raise HttpError(
                429,
                "too_many_streams",
                "too many streams are open with this access token, or on this node: try again "
                "later, or use several tokens.",
                retryable=True,
            )

    @contextmanager
    def held(self, identity: RequestIdentity) -> Iterator[None]:
        """A stream is open in the block. Whether it may be is to be checked before."""
        self._held[identity.name] += 1
        try:
            yield
        finally:
            self._held[identity.name] -= 1
            if not self._held[identity.name]:
                del self._held[identity.name]
