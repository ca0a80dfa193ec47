"""Ready-made kinds of queues, as gopq has them: what they are made of."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec

from headrace.client.items import ItemView
from headrace.client.waiting import FIRST_PAUSE, LONGEST_PAUSE
from headrace.core.queue_settings import Settings
from headrace.core.times import Duration, duration_ms
from headrace.errors import InvalidOption, NoItemsWaiting
from headrace.model.checks import seconds
from headrace.model.queues import NO_LIMIT, Backoff

Processed = Literal["store", "delete"] | Duration
"""What becomes of an item that was processed: it is kept, for ever or for a time, or not."""

Unique = Literal["live", "forever"]
"""At most one copy that is not processed yet, or one in the life of the queue."""

I = TypeVar("I", bound=ItemView)  # noqa: E741  # an item, blocking or async


class AckOpts(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue with acknowledgements treats what is not acknowledged.

    ``ack_timeout``    after how long a message is handed out again; that counts as a retry.
    ``max_retries``    how many times it is handed out again before it has failed; -1: no limit.
    ``retry_backoff``  how long it is hidden after a nack: a time, or a ``headrace.Backoff``.
    ``processed``      ``store`` keeps acknowledged messages, ``delete`` does not; or for a time.
    """

    ack_timeout: Duration = 30.0
    max_retries: int = 3
    retry_backoff: Duration | Backoff = 0.0
    processed: Processed = "store"


DEFAULT_ACKS = AckOpts()
DEFAULT_UNIQUE_ACKS = AckOpts(processed="delete")


class Message(Generic[I]):
    """What a queue hands out: ``id``, ``item`` (what was enqueued) and ``attempts``."""

    __slots__ = ("_claimed",)

    def __init__(self, claimed: I) -> None:
        self._claimed = claimed

    @property
    def id(self) -> int:
        return self._claimed.id

    @property
    def item(self) -> Any:
        """What was enqueued."""
        return self._claimed.payload

    @property
    def attempts(self) -> int:
        """How many times it was handed out, this time included."""
        return self._claimed.attempts

    @property
    def headers(self) -> dict[str, str]:
        """Where a dead letter comes from, and why."""
        return self._claimed.headers

    @property
    def deadline(self) -> datetime | None:
        """When it is handed out again unless it is acknowledged."""
        return self._claimed.deadline

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self._claimed.queue!r}>"


def plain_settings(processed: Processed, unique: Unique | None) -> Settings:
    """Settings of a queue whose items are gone once they are handed out."""
    return {
        "discipline": "fifo",
        "retry_position": "front",
        "keep": kept(processed),
        "unique": lasting(unique),
    }


def ack_settings(opts: AckOpts, unique: Unique | None) -> Settings:
    """Settings of a queue whose items are acknowledged."""
    if not isinstance(opts, AckOpts):
        raise InvalidOption(f"opts is {opts!r:.80}: give headrace.AckOpts(...).", option="opts")
    retries = opts.max_retries
    if type(retries) is not int or retries < NO_LIMIT:
        raise InvalidOption(
            f"max_retries is {retries!r}: use 0 or more, or -1 for no limit.", option="max_retries"
        )
    # A retry is a further delivery, and a delivery that is never acknowledged is one too.
    deliveries = NO_LIMIT if retries == NO_LIMIT else retries + 1
    settings: Settings = {
        **plain_settings(opts.processed, unique),
        "lock_duration": duration_ms("ack_timeout", opts.ack_timeout, least=1) / 1000,
        "dead_threshold": deliveries,
        "max_crashes": deliveries,
        "reject_delay": None,
    }
    if isinstance(opts.retry_backoff, Backoff):
        settings["backoff"] = opts.retry_backoff
    else:
        settings["reject_delay"] = duration_ms("retry_backoff", opts.retry_backoff) / 1000
    return settings


def kept(processed: Processed) -> Literal["all", "none"] | float:
    """For how long processed items are kept."""
    if processed == "store":
        return "all"
    if processed == "delete":
        return "none"
    return duration_ms("processed", processed) / 1000


def lasting(unique: Unique | None) -> Unique:
    """How long a subject is taken; without uniqueness there are no subjects."""
    if unique not in (None, "live", "forever"):
        raise InvalidOption(f"unique is {unique!r}: use live or forever.", option="unique")
    return unique or "live"


def digest(item: Any) -> str | None:
    """The subject of an item that is the same as another if its content is.

    None for what cannot be pushed anyway: the push says why.
    """
    if isinstance(item, (bytes, bytearray, memoryview)):
        return hashlib.blake2b(bytes(item), digest_size=20, person=b"bytes").hexdigest()
    try:
        text = msgspec.json.encode(item, order="sorted")
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return hashlib.blake2b(text, digest_size=20, person=b"json").hexdigest()


def nothing(queue: str) -> NoItemsWaiting:
    return NoItemsWaiting(f"nothing waits in queue {queue!r} now.", queue=queue)


class Patience:
    """How long somebody rides out a locked database; None is for ever."""

    def __init__(self, wait: float | None) -> None:
        self._end = None if wait is None else time.monotonic() + seconds("wait", wait)
        self._pause = FIRST_PAUSE

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    @property
    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def pause(self) -> float:
        """How long to sleep before the next attempt."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause if self._end is None else min(pause, self.left or 0.0)


Callback = Callable[[Message[Any], str], object]
"""Called with a message that has failed for good, and why."""
