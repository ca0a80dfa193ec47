"""PipeProc's processors as processors of a pipeline."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from headrace.compat.pipeproc_values import accepts, log_of
from headrace.errors import InvalidProcessor
from headrace.model.topics.records import Record
from headrace.pipelines.processors import import_processor, name_of

_FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>\w+))?")
POLL_SECONDS = 0.1
"""The interval at which the end of a time limit is noticed while ``done`` is awaited."""


class ProcessorFailed(Exception):
    """What ``done`` was called with, if that is not an exception."""


def pipeline_processor(processor: object, *, has_targets: bool) -> Callable[[Record], Any]:
    """A function of records that calls ``processor(log, done)`` or ``processor(log)``.

    ``processor`` is a function, ``module:function``, the path of a Python file whose function has
    the file's name, or such a path with ``:function``.
    """
    function = _import(processor) if isinstance(processor, str) else processor
    if not callable(function) or not (accepts(function, 2) or accepts(function, 1)):
        raise InvalidProcessor(
            f"the processor is {processor!r:.80}: give a function of (log, done) or of (log), the "
            "path of a Python file, or 'module:function'.",
            option="processor",
        )
    has_done = accepts(function, 2)

    def call(record: Record) -> tuple[Any, _Done]:
        done = _Done()
        log = log_of(record)
        return (function(log, done) if has_done else function(log)), done

    def bodies(result: Any, done: _Done) -> Any:
        data = done.data if done.is_called else result
        is_empty = not data and not isinstance(data, (dict, list))
        return None if is_empty or not has_targets else data

    def process(record: Record) -> Any:
        result, done = call(record)
        if inspect.isawaitable(result):
            result = asyncio.run(_finish(result))
        elif has_done and result is None:
            done.wait()
        return bodies(result, done)

    async def process_async(record: Record) -> Any:
        result, done = call(record)
        return bodies(await result, done)

    processed = process_async if inspect.iscoroutinefunction(function) else process
    processed.__module__, _, processed.__qualname__ = name_of(function).partition(":")
    return processed


async def _finish(result: Awaitable[Any]) -> Any:
    return await result


class _Done:
    """The callback of a processor: ``done(err, data)``. Only the first call counts."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self._error: BaseException | None = None
        self._data: Any = None

    def __call__(self, error: object = None, data: Any = None) -> None:
        if self._called.is_set():
            return
        if isinstance(error, BaseException):
            self._error = error
        elif error:
            self._error = ProcessorFailed(str(error))
        self._data = data
        self._called.set()

    @property
    def is_called(self) -> bool:
        return self._called.is_set()

    @property
    def data(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._data

    def wait(self) -> None:
        while not self._called.wait(POLL_SECONDS):
            pass


def absolute_reference(text: str) -> str:
    """The text that names a processor, with an absolute path: other processes may use it."""
    match = _FILE.fullmatch(text)
    if match is None:
        return text
    path = str(Path(match["path"]).resolve())
    return path if match["name"] is None else f"{path}:{match['name']}"


def _import(text: str) -> Callable[..., Any]:
    match = _FILE.fullmatch(text)
    if match is None:
        return import_processor(text)
    path = Path(match["path"]).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    # Every .py file has a loader.
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = getattr(module, match["name"] or path.stem)
    except (Exception, SystemExit) as error:
        # The user's file may raise anything while it is imported.
        raise InvalidProcessor(
            f"processor {text!r} cannot be imported: {type(error).__name__}: {error}.",
            option="processor",
        ) from error
    return function  # type: ignore[no-any-return]  # checked by the caller
