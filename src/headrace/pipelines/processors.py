"""Processors: the user's functions, and what they accept.

A processor takes one of three things, its *kind*:

- ``record``: the body of a record, a dict (or list). It returns a dict, a list of them, or
  None. A function whose parameter is annotated ``Record`` gets the whole record instead. It may
  be a coroutine function: then the records of a claim are processed concurrently.
- ``batch``: a ``pyarrow.RecordBatch`` with the columns of ``COLUMNS``. It returns a batch or a
  table with a column ``body`` of JSON text, or with columns of which each row becomes a body,
  or None.
- ``frame``: a Spark ``DataFrame`` with the same columns, on the Spark engine only. It returns
  a DataFrame, read in the same way.

``kind=`` names the kind, otherwise the annotation of the function's first parameter decides:
``RecordBatch`` or ``Table`` of pyarrow, ``DataFrame`` of pyspark. A function without such an
annotation is a function of records.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import InvalidProcessor
from headrace.model.pipelines import Kind

COLUMNS = ("topic", "seq", "id", "ts", "headers", "body")
"""The columns of batches and frames: ``headers`` and ``body`` are JSON text, ``ts`` a timestamp."""

_BATCHES = ("RecordBatch", "Table")


class Processor(NamedTuple):
    """A function, and what an engine needs to know about it."""

    function: Callable[..., Any]
    name: str
    kind: Kind
    takes_record: bool
    is_async: bool
    reference: str | None
    """``module:function``, by which another process imports it; None for an inline function."""


def processor_of(
    function: Callable[..., Any], *, kind: Kind | None, reference: str | None = None
) -> Processor:
    """Inspect a function; ``InvalidProcessor`` if it cannot be a processor."""
    if not callable(function):
        raise InvalidProcessor(
            f"the processor is {function!r:.80}: give a function, or 'module:function'.",
            option="processor",
        )
    name = reference or name_of(function)
    annotation = _first_annotation(function, name)
    kind = kind or _kind_by_annotation(annotation)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    )
    if is_async and kind != "record":
        raise InvalidProcessor(
            f"processor {name} is a coroutine function: only record processors may be.",
            option="processor",
        )
    return Processor(function, name, kind, _last_name(annotation) == "Record", is_async, reference)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function for people, as ``module:function``."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def check_reference(text: str) -> str:
    """Return ``text`` if it has the form of a reference."""
    module, colon, name = text.partition(":")
    if not (colon and module and name) or not all(
        part.isidentifier() for part in [*module.split("."), *name.split(".")]
    ):
        raise InvalidProcessor(
            f"processor is {text!r}: write module:function, as in shop.jobs:invoice, or give the "
            "function itself.",
            option="processor",
        )
    return text


def import_processor(reference: str) -> Callable[..., Any]:
    """Import the function that a reference names; ``InvalidProcessor`` says why it failed."""
    module, _, name = check_reference(reference).partition(":")
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.append(directory)
    try:
        imported: Any = importlib.import_module(module)
        for part in name.split("."):
            imported = getattr(imported, part)
    except (Exception, SystemExit) as error:
        # The user's module may raise anything while it is imported.
        raise InvalidProcessor(
            f"processor {reference!r} cannot be imported: {type(error).__name__}: {error}.",
            option="processor",
        ) from error
    if not callable(imported):
        raise InvalidProcessor(
            f"processor {reference!r} is {type(imported).__name__}, not a function.",
            option="processor",
        )
    return imported  # type: ignore[no-any-return]  # any callable will do


def _first_annotation(function: Callable[..., Any], name: str) -> Any:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None  # a built-in without a signature is a function of records
    needed = [p for p in parameters if p.default is p.empty and p.kind in _NEEDED]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    if not (positional or takes_any) or [p for p in needed if p not in positional[:1]]:
        raise InvalidProcessor(
            f"processor {name}{inspect.signature(function)} cannot be called with one argument: "
            "it gets a record's body, a batch or a DataFrame, and nothing else.",
            option="processor",
        )
    return positional[0].annotation if positional else None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NEEDED = (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)


def _kind_by_annotation(annotation: Any) -> Kind:
    last = _last_name(annotation)
    if last in _BATCHES:
        return "batch"
    return "frame" if last == "DataFrame" else "record"


def _last_name(annotation: Any) -> str:
    """``RecordBatch`` of the class, or of the text ``pa.RecordBatch``."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.strip("\"' ").rpartition(".")[2]
