"""What gopq's queues have besides their methods: options, messages, errors, settings."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from headrace.client.waiters import FIRST_PAUSE, MAX_PAUSE_SECONDS
from headrace.core.queue_settings import QueueOptions
from headrace.errors import HeadraceError, InvalidBody, InvalidOption, ItemLost, StoreBusy
from headrace.model.checks import seconds
from headrace.model.fields import shown
from headrace.model.queues.settings import NO_LIMIT, Backoff
from headrace.model.times import Duration, duration_ms

INFINITE_RETRIES = NO_LIMIT
"""``AckOpts.max_retries`` of a queue whose messages never fail for good."""

FILE_PATIENCE_SECONDS = 0.1
"""How long one attempt waits for a locked file."""

MEMORY_URL = "memory://gopq"
"""The store of all queues without a path, in this process."""

Unique = Literal["live", "forever"]
"""At most one copy that is not processed yet, or one in the life of the queue."""

_numbers = itertools.count(1)


class AckAction(Enum):
    """What becomes of an acknowledged message."""

    MARK = 1
    DELETE = 2


ACK_MARK = AckAction.MARK
"""Acknowledged messages are kept, as completed items."""

ACK_DELETE = AckAction.DELETE
"""Acknowledged messages are deleted."""


class Msg(msgspec.Struct, frozen=True):
    """A dequeued item and its id."""

    id: int
    item: bytes


FailureCallback = Callable[[Msg], object]
"""Called with a message that has failed for good."""


class AckOpts(msgspec.Struct, frozen=True):
    """How an ack queue treats messages that are not acknowledged.

    ``ack_timeout``        after how long a message is delivered again; that counts as a retry.
    ``max_retries``        how many times it is delivered again before it has failed;
                           ``INFINITE_RETRIES``: no limit.
    ``retry_backoff``      how long it is hidden after a nack: a time, or a ``headrace.Backoff``.
    ``failure_callbacks``  as with ``register_on_failure_callback``.
    ``ack_action``         ``ACK_MARK`` keeps acknowledged messages, ``ACK_DELETE`` does not.

    An option that is not given leaves an existing queue as it is. A new queue has 30 seconds,
    3 retries, no backoff, and ``ACK_MARK`` (``ACK_DELETE`` if it is unique).
    """

    ack_timeout: Duration | None = None
    max_retries: int | None = None
    retry_backoff: Duration | Backoff | None = None
    failure_callbacks: Sequence[FailureCallback] = ()
    ack_action: AckAction | None = None


DEFAULT_ACKS = AckOpts(30.0, 3, 0.0, ack_action=ACK_MARK)
DEFAULT_UNIQUE_ACKS = AckOpts(30.0, 3, 0.0, ack_action=ACK_DELETE)


class ErrNoItemsWaiting(HeadraceError):
    """No item can be dequeued now, or none could within the timeout."""

    code = "no_items_waiting"
    retryable = True


class ErrDBLocked(HeadraceError):
    """The database is locked, or was for the whole timeout. Nothing was written."""

    code = "db_locked"
    retryable = True


def no_items_waiting(queue: str) -> ErrNoItemsWaiting:
    return ErrNoItemsWaiting(
        f"no items waiting in queue {shown(queue)}: dequeue again later.", queue=queue
    )


def db_locked(error: StoreBusy) -> ErrDBLocked:
    return ErrDBLocked(f"the database is locked: {error.message}", **error.details)


def not_held(queue: str, id: object) -> ItemLost:
    return ItemLost(
        f"this object does not hold message {shown(id)} of queue {shown(queue)}: its ack deadline "
        "has expired, it was acked or nacked already, or another object dequeued it. Nothing was "
        "written.",
        queue=queue,
        item=id,
    )


def checked_item(item: object) -> bytes:
    """Items are bytes, as in gopq."""
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    raise InvalidBody(f"an item is bytes, not {shown(item)}: encode it first.", path="$")


class Location(NamedTuple):
    """Where a queue is: the URL of its store, and its name there."""

    url: str
    name: str
    is_private: bool
    """Whether it is in memory and ends with its object."""


def location(path: object, kind: str, name: str | None) -> Location:
    """Find the store of a path: a file, memory for ``""``, or the URL of any store."""
    if not isinstance(path, str | Path):
        raise InvalidOption(f"path is {shown(path)}: give the path of a file.", option="path")
    text = str(path)
    if path == "":
        return Location(MEMORY_URL, name or f"{kind}_{next(_numbers)}", is_private=name is None)
    if "://" in text:
        return Location(text, name or kind, is_private=False)
    return Location(f"sqlite:///{quote(str(Path(text).resolve()))}", name or kind, is_private=False)


def connect_options(url: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options for ``headrace.connect``: one attempt at a file is short."""
    patience = {"patience": FILE_PATIENCE_SECONDS} if url.startswith("sqlite:") else {}
    return {**patience, **options}


class HeldMessage(NamedTuple):
    """A message that an object dequeued and has not acknowledged."""

    claim: Any
    """The claimed item, blocking or async."""
    until: float
    """When its ack deadline is over for certain, by the clock of this process."""


class KindSettings(NamedTuple):
    """Settings of one kind: what a new queue gets, and what changes in an existing one.

    Options that a caller leaves out are the kind's defaults for a new queue only: another
    client may have chosen others since.
    """

    new: QueueOptions
    existing: QueueOptions


def simple_settings(delete_on_dequeue: bool | None) -> KindSettings:
    """A queue whose items are processed once they are dequeued."""
    return _kind(_kept(delete_on_dequeue), {"keep": "all", "unique": "live"})


def unique_settings(delete_on_dequeue: bool | None, unique: Unique | None) -> KindSettings:
    """The same without duplicates."""
    given: QueueOptions = {
        **_kept(delete_on_dequeue),
        **_lasting(unique),
        "unique_content": True,
    }
    return _kind(given, {"keep": "none", "unique": "live"})


def ack_settings(opts: AckOpts | None) -> KindSettings:
    """A queue whose items are acknowledged."""
    given = {} if opts is None else _acks(opts)
    return _kind(given, {**_acks(DEFAULT_ACKS), "unique": "live"})


def unique_ack_settings(opts: AckOpts | None, unique: Unique | None) -> KindSettings:
    """The same without duplicates."""
    acks = {} if opts is None else _acks(opts)
    given: QueueOptions = {**acks, **_lasting(unique), "unique_content": True}
    return _kind(given, {**_acks(DEFAULT_UNIQUE_ACKS), "unique": "live"})


def _kind(given: QueueOptions, defaults: QueueOptions) -> KindSettings:
    every: QueueOptions = {"discipline": "fifo", "retry_position": "front"}
    return KindSettings({**every, **defaults, **given}, given)


def _acks(opts: AckOpts) -> QueueOptions:
    if not isinstance(opts, AckOpts):
        raise InvalidOption(f"opts is {shown(opts)}: give AckOpts(...).", option="opts")
    settings: QueueOptions = {}
    if opts.ack_action is not None:
        if not isinstance(opts.ack_action, AckAction):
            raise InvalidOption(
                f"ack_action is {shown(opts.ack_action)}: use ACK_MARK or ACK_DELETE.",
                option="ack_action",
            )
        settings = _kept(opts.ack_action is ACK_DELETE)
    if opts.ack_timeout is not None:
        settings["lease"] = duration_ms("ack_timeout", opts.ack_timeout, least=1) / 1000
    if opts.max_retries is not None:
        settings["max_attempts"] = settings["max_crashes"] = _deliveries(opts.max_retries)
    if isinstance(opts.retry_backoff, Backoff):
        settings["backoff"], settings["reject_delay"] = opts.retry_backoff, None
    elif opts.retry_backoff is not None:
        settings["reject_delay"] = duration_ms("retry_backoff", opts.retry_backoff) / 1000
    return settings


def _deliveries(retries: int) -> int:
    """A retry is a further delivery, and a delivery that is never acknowledged is one too."""
    if type(retries) is not int or retries < INFINITE_RETRIES:
        raise InvalidOption(
            f"max_retries is {shown(retries)}: use 0 or more, or INFINITE_RETRIES.",
            option="max_retries",
        )
    return NO_LIMIT if retries == INFINITE_RETRIES else retries + 1


def _kept(is_deleted: bool | None) -> QueueOptions:
    """Whether processed items are kept."""
    if is_deleted is None:
        return {}
    if not isinstance(is_deleted, bool):
        raise InvalidOption(
            f"delete_on_dequeue is {shown(is_deleted)}: use True or False.",
            option="delete_on_dequeue",
        )
    return {"keep": "none" if is_deleted else "all"}


def _lasting(unique: Unique | None) -> QueueOptions:
    """How long content stays unique."""
    if unique is None:
        return {}
    if unique not in ("live", "forever"):
        raise InvalidOption(f"unique is {shown(unique)}: use live or forever.", option="unique")
    return {"unique": unique}


class Timeout:
    """How long a call tries; None is for ever."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + seconds("timeout", timeout)
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
        pause, self._pause = self._pause, min(self._pause * 2, MAX_PAUSE_SECONDS)
        return pause if self._end is None else min(pause, self.left or 0.0)
