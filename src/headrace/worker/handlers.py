"""Calls handlers, and turns what they return or raise into outcomes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from headrace.contract.shield import is_cancelled
from headrace.errors import InvalidOption
from headrace.model.failures import failure_of
from headrace.model.fields import shown
from headrace.model.times import duration_ms
from headrace.worker.events import Listeners
from headrace.worker.in_flight import InFlightItem
from headrace.worker.items import Item, item_of
from headrace.worker.outcomes import (
    COMPLETE,
    KINDS,
    RELEASE,
    Error,
    HandlerOutcome,
    Kill,
    Reject,
    RetryAfter,
    RetryLater,
    failure_from,
)
from headrace.worker.status import Switch
from headrace.worker.worker_options import Backoff


class Context:
    """What a handler may know besides its item: its second argument, if it has one."""

    __slots__ = ("_entries", "_switch", "client", "worker")

    def __init__(
        self, entries: Sequence[InFlightItem], switch: Switch, client: Any, worker: str
    ) -> None:
        self._entries = entries
        self._switch = switch
        self.client = client
        self.worker = worker

    @property
    def is_lost(self) -> bool:
        """Whether the claim (of any item of a batch) is lost: the outcome will be ignored."""
        return any(entry.is_lost for entry in self._entries)

    @property
    def lost(self) -> frozenset[int]:
        """The ids of the items whose claims are lost."""
        return frozenset(entry.state.id for entry in self._entries if entry.is_lost)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker wants to stop: a long handler may return ``Release()`` now."""
        return self._switch.current in ("stopping", "stopped")


class Handler:
    """A user's function, and how it is called. An error that it raises is an outcome, too."""

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
                f"handler is {shown(function)}: use a function of an item.", option="handler"
            )
        self.function = function
        self.is_batch = is_batch
        self.is_async = _is_async(function)
        self._takes_context = _takes_context(function)
        self._context = (switch, client, worker)
        self._listeners = listeners
        self._backoff = backoff

    def run(self, entry: InFlightItem) -> HandlerOutcome:
        """Call it with one item."""
        item, since = item_of(entry.state), perf_counter()
        try:
            if self._takes_context:
                result = self.function(item, Context((entry,), *self._context))
            else:
                result = self.function(item)
            return COMPLETE if result is None else self._read(item, result, since)
        except BaseException as error:  # whatever a handler raises, its worker goes on
            return self._failed(item, error, since)

    async def arun(self, entry: InFlightItem) -> HandlerOutcome:
        """``run`` for a coroutine function."""
        item, since = item_of(entry.state), perf_counter()
        try:
            if self._takes_context:
                result = await self.function(item, Context((entry,), *self._context))
            else:
                result = await self.function(item)
            return COMPLETE if result is None else self._read(item, result, since)
        except BaseException as error:  # as above
            return RELEASE if is_cancelled(error) else self._failed(item, error, since)

    def run_batch(self, entries: Sequence[InFlightItem]) -> list[HandlerOutcome]:
        """Call it with a list of items; an outcome for each."""
        items, since = [item_of(entry.state) for entry in entries], perf_counter()
        try:
            if self._takes_context:
                result = self.function(items, Context(entries, *self._context))
            else:
                result = self.function(items)
            return self._read_batch(items, result, since)
        except BaseException as error:  # as above
            return [self._failed(item, error, since) for item in items]

    async def arun_batch(self, entries: Sequence[InFlightItem]) -> list[HandlerOutcome]:
        """``run_batch`` for a coroutine function."""
        items, since = [item_of(entry.state) for entry in entries], perf_counter()
        try:
            if self._takes_context:
                result = await self.function(items, Context(entries, *self._context))
            else:
                result = await self.function(items)
            return self._read_batch(items, result, since)
        except BaseException as error:  # as above
            if is_cancelled(error):
                return [RELEASE] * len(items)
            return [self._failed(item, error, since) for item in items]

    def _read(self, item: Item, result: Any, since: float) -> HandlerOutcome:
        """What a handler's return value means for an item."""
        if isinstance(result, type) and issubclass(result, HandlerOutcome):
            result = result()
        if isinstance(result, HandlerOutcome):
            if type(result) not in KINDS:
                raise TypeError(f"{type(result).__name__} is no outcome of its own")
            return (
                self._returned_failure(item, result, since)
                if isinstance(result, Reject | Kill)
                else result
            )
        if isinstance(result, BaseException):
            return self._failed(item, result, since)
        if result is False:
            raise ValueError("the handler returned False: return Reject(why) if it failed")
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("the handler returned a coroutine: declare it with 'async def'")
        return COMPLETE

    def _returned_failure(self, item: Item, outcome: Reject | Kill, since: float) -> HandlerOutcome:
        """A failure that was returned; an exception in it is reported as if it had been raised."""
        error = outcome.error
        if isinstance(error, BaseException):
            outcome = replace(outcome, error=failure_from(error))
        found = outcome if isinstance(outcome, Kill) else self._with_backoff(item, outcome, error)
        if isinstance(error, BaseException):
            self._listeners.report_failure(error, item, found, perf_counter() - since)
        return found

    def _read_batch(self, items: Sequence[Item], result: Any, since: float) -> list[HandlerOutcome]:
        if isinstance(result, Mapping):
            known = {item.id for item in items}
            if unknown := [key for key in result if key not in known]:
                raise ValueError(f"the handler returned outcomes for unknown items: {unknown}")
            return [self._read(item, result.get(item.id), since) for item in items]
        if isinstance(result, list | tuple):
            if len(result) > len(items):
                raise ValueError(f"the handler returned {len(result)} outcomes for {len(items)}")
            missing = [None] * (len(items) - len(result))
            return [
                self._read(i, r, since) for i, r in zip(items, [*result, *missing], strict=True)
            ]
        return [self._read(item, result, since) for item in items]

    def _failed(self, item: Item, error: BaseException, since: float) -> HandlerOutcome:
        # By its type: an exception may raise whenever one of its attributes is read.
        if issubclass(type(error), RetryLater):
            outcome = getattr(error, "outcome", None)
            if type(outcome) is RetryAfter:
                return outcome
        # Only its text is kept: an error keeps its frames alive, and with them all they refer to.
        outcome = self._with_backoff(item, Reject(failure_of(error)), error)
        self._listeners.report_failure(error, item, outcome, perf_counter() - since)
        return outcome

    def _with_backoff(self, item: Item, reject: Reject, error: Error = None) -> Reject:
        """A rejection with the delay of the worker's own backoff, if it has one."""
        if self._backoff is None or reject.delay is not None or reject.at is not None:
            return reject
        try:
            delay = self._backoff(item, reject.error if error is None else error)
            if delay is None:
                return reject
            duration_ms("backoff", delay)
        except BaseException as mistake:  # a bad backoff must not cost the item
            self._listeners.report(mistake, "handle", item)
            return reject
        return replace(reject, delay=delay)


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
    positional = [parameter for parameter in parameters if parameter.kind in kinds]
    if len(positional) < 2:
        return False
    second = positional[1]
    is_required = second.default is inspect.Parameter.empty
    return (
        is_required
        or second.name in ("context", "ctx")
        or second.annotation in (Context, "Context")
    )
