"""Calling handlers, and reading what they return."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headrace.core.times import duration_ms
from headrace.errors import InvalidOption
from headrace.worker.events import Listeners
from headrace.worker.holding import Entry
from headrace.worker.items import Item, item_of
from headrace.worker.outcomes import (
    COMPLETE,
    KINDS,
    RELEASE,
    Error,
    Kill,
    Outcome,
    Reject,
    RetryLater,
    failure_from,
)
from headrace.worker.status import Switch

Backoff = Callable[[Item, Any], float | None]


class Context:
    """What a handler may know beside its item: its second argument, if it has one."""

    __slots__ = ("_entries", "_switch", "client", "worker")

    def __init__(self, entries: Sequence[Entry], switch: Switch, client: Any, worker: str) -> None:
        self._entries = entries
        self._switch = switch
        self.client = client
        self.worker = worker

    @property
    def is_lost(self) -> bool:
        """Whether the claim (of any item of a batch) is gone: what is returned will not count."""
        return any(entry.is_lost for entry in self._entries)

    @property
    def lost(self) -> frozenset[int]:
        """The ids of the items whose claims are gone."""
        return frozenset(entry.state.id for entry in self._entries if entry.is_lost)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker wants to stop: a long handler may return ``Release()`` now."""
        return self._switch.current in ("stopping", "stopped")


class Handler:
    """A user's function, and how it is called. It never raises: that is an outcome too."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        client: Any,
        worker: str,
        switch: Switch,
        listeners: Listeners,
        is_batch: bool,
        backoff: Backoff | None,
    ) -> None:
        if not callable(function):
            raise InvalidOption(
                f"handler is {function!r}: use a function of an item.", option="handler"
            )
        self.function = function
        self.is_batch = is_batch
        self.is_async = _is_async(function)
        self._takes_context = _takes_context(function)
        self._about = (switch, client, worker)
        self._listeners = listeners
        self._backoff = backoff

    def run(self, entry: Entry) -> Outcome:
        """Call it with one item."""
        item = item_of(entry.state)
        try:
            if self._takes_context:
                result = self.function(item, Context((entry,), *self._about))
            else:
                result = self.function(item)
            return COMPLETE if result is None else self._read(item, result)
        except BaseException as error:  # whatever a handler raises, its worker lives on
            return self._failed(item, error)

    async def arun(self, entry: Entry) -> Outcome:
        """``run`` for a coroutine function."""
        item = item_of(entry.state)
        try:
            if self._takes_context:
                result = await self.function(item, Context((entry,), *self._about))
            else:
                result = await self.function(item)
            return COMPLETE if result is None else self._read(item, result)
        except BaseException as error:  # as above
            return RELEASE if _is_cancelled(error) else self._failed(item, error)

    def run_batch(self, entries: Sequence[Entry]) -> list[Outcome]:
        """Call it with a list of items; an outcome for each."""
        items = [item_of(entry.state) for entry in entries]
        try:
            if self._takes_context:
                result = self.function(items, Context(entries, *self._about))
            else:
                result = self.function(items)
            return self._read_batch(items, result)
        except BaseException as error:  # as above
            return [self._failed(item, error) for item in items]

    async def arun_batch(self, entries: Sequence[Entry]) -> list[Outcome]:
        """``run_batch`` for a coroutine function."""
        items = [item_of(entry.state) for entry in entries]
        try:
            if self._takes_context:
                result = await self.function(items, Context(entries, *self._about))
            else:
                result = await self.function(items)
            return self._read_batch(items, result)
        except BaseException as error:  # as above
            if _is_cancelled(error):
                return [RELEASE] * len(items)
            return [self._failed(item, error) for item in items]

    def _read(self, item: Item, result: Any) -> Outcome:
        """What a handler's return value means for an item."""
        if isinstance(result, type) and issubclass(result, Outcome):
            result = result()
        if isinstance(result, Outcome):
            if type(result) not in KINDS:
                raise TypeError(f"{type(result).__name__} is no outcome of its own")
            return self._said(item, result) if isinstance(result, Reject | Kill) else result
        if isinstance(result, BaseException):
            return self._failed(item, result)
        if result is False:
            raise ValueError("the handler returned False: return Reject(why) if it failed")
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("the handler returned a coroutine: declare it with 'async def'")
        return COMPLETE

    def _said(self, item: Item, outcome: Reject | Kill) -> Outcome:
        """A failure that was returned; an exception in it is told as if it had been raised."""
        error = outcome.error
        if isinstance(error, BaseException):
            self._listeners.trouble(error, "handle", item)
            outcome = replace(outcome, error=failure_from(error))
        return outcome if isinstance(outcome, Kill) else self._patient(item, outcome, error)

    def _read_batch(self, items: Sequence[Item], result: Any) -> list[Outcome]:
        if isinstance(result, Mapping):
            known = {item.id for item in items}
            if strange := [key for key in result if key not in known]:
                raise ValueError(f"the handler returned outcomes for unknown items: {strange}")
            return [self._read(item, result.get(item.id)) for item in items]
        if isinstance(result, list | tuple):
            if len(result) > len(items):
                raise ValueError(f"the handler returned {len(result)} outcomes for {len(items)}")
            missing = [None] * (len(items) - len(result))
            return [self._read(i, r) for i, r in zip(items, [*result, *missing], strict=True)]
        return [self._read(item, result) for item in items]

    def _failed(self, item: Item, error: BaseException) -> Outcome:
        if isinstance(error, RetryLater):
            return error.outcome
        self._listeners.trouble(error, "handle", item)
        # As text at once: an error keeps its frames alive, and with them all they hold.
        return self._patient(item, Reject(failure_from(error)), error)

    def _patient(self, item: Item, reject: Reject, error: Error = None) -> Outcome:
        """A rejection with the wait that the worker's own backoff says."""
        if self._backoff is None or reject.delay is not None or reject.at is not None:
            return reject
        try:
            delay = self._backoff(item, reject.error if error is None else error)
            if delay is None:
                return reject
            duration_ms("backoff", delay)
        except Exception as mistake:  # a bad backoff must not cost the item
            self._listeners.trouble(mistake, "handle", item)
            return reject
        return replace(reject, delay=delay)


def _is_cancelled(error: BaseException) -> bool:
    """Whether somebody cancelled the handler's task, rather than something inside of it."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True  # its event loop is gone, and the task with it
    is_outside = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and is_outside


def _is_async(function: Any) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004  # an object may have an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _takes_context(function: Any) -> bool:
    """Whether there is a second parameter that must be given, or is named or typed for it."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [parameter for parameter in parameters if parameter.kind in kinds]
    if len(places) < 2:
        return False
    second = places[1]
    is_required = second.default is inspect.Parameter.empty
    return (
        is_required
        or second.name in ("context", "ctx")
        or second.annotation in (Context, "Context")
    )
