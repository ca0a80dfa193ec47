"""What FetchQ's calls have besides their methods: options, documents, results, errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from headrace.core.documents import Doc, doc_of
from headrace.errors import HeadraceError, InvalidBody, InvalidOption
from headrace.model.checks import each
from headrace.model.fields import shown
from headrace.model.times import is_duration
from headrace.worker.worker_options import WorkerOptions

Options = Mapping[str, Any] | None
"""Options as FetchQ's documents write them (``lockDuration``), or in Python's spelling."""

_SETTINGS = {
    "lock_duration": "lease",
    "dead_threshold": "max_attempts",
    "worker_chunk": "chunk",
    "worker_concurrency": "concurrency",
}
_WORKER_OPTIONS = frozenset(WorkerOptions.__annotations__)
_CONNECT_OPTIONS = frozenset({"durability", "migrate", "patience", "max_body", "clock"})
_PARAMETERS = {"database": "dbname"}
_NOW = ("", "now", "now()", "NOW", "NOW()")


class FetchQError(HeadraceError):
    """A call failed: ``__cause__`` says why, with its own ``code``."""

    code = "fetchq_error"


class FetchQPushError(FetchQError):
    """``push`` failed: no document was pushed."""

    code = "fetchq_push_error"


class FetchQUpsertError(FetchQError):
    """``upsert`` failed: no document was pushed or updated."""

    code = "fetchq_upsert_error"


class FetchQRegisterWorkerError(FetchQError):
    """``register_worker`` failed: this client has a worker for the queue, or an option is wrong."""

    code = "fetchq_register_worker_error"


class FetchQCreateError(FetchQError):
    """``create`` failed: the queue exists, or an option is wrong."""

    code = "fetchq_create_error"


class FetchQRefError(FetchQError):
    """``ref`` failed: the name or an option is wrong."""

    code = "fetchq_ref_error"


@contextmanager
def failing_as(family: type[FetchQError]) -> Iterator[None]:
    """Raise Headrace's errors as an error of FetchQ, with the original as ``__cause__``."""
    try:
        yield
    except FetchQError:
        raise
    except HeadraceError as error:
        raise family(error.message, **error.details) from error


class Result(msgspec.Struct, frozen=True):
    """How many documents were pushed, and how many skipped because they exist in the queue."""

    pushed: int
    skipped: int


class UpsertResult(msgspec.Struct, frozen=True):
    """How many documents were pushed, updated, and skipped because they are active."""

    pushed: int
    updated: int
    skipped: int


def documents_of(documents: object) -> list[Doc]:
    """Documents in FetchQ's form: ``{"subject", "payload", "priority", "nextExecution"}``."""
    is_list = isinstance(documents, Iterable) and not isinstance(documents, str | bytes | Mapping)
    if not is_list or not isinstance(documents, Iterable):
        raise InvalidBody(f"{shown(documents)} is not a list of documents.", path="$")
    return each(documents, _document)


def _document(document: object) -> Doc:
    if isinstance(document, Doc):
        return document
    if not isinstance(document, Mapping):
        raise InvalidBody(f'{shown(document)} is not a document: write {{"payload": …}}.', path="$")
    fields = {_snake(name): value for name, value in document.items()}
    when = fields.pop("next_execution", None)
    if when is not None and when not in _NOW:
        fields["delay" if is_duration(when) else "at"] = when
    return doc_of(fields)


def queue_options(options: Options, more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a queue by Headrace's names."""
    return {_SETTINGS.get(name, name): value for name, value in _given(options, more).items()}


def worker_options(options: Options, more: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a worker by Headrace's names, its handler among them."""
    found = queue_options(options, more)
    if unknown := found.keys() - _WORKER_OPTIONS - {"queue", "handler"}:
        raise _unknown("a worker", unknown, _WORKER_OPTIONS | {"queue", "handler"})
    if "handler" not in found:
        raise InvalidOption("a worker needs a handler: a function of an item.", option="handler")
    return found


def drop_options(options: Options, more: Mapping[str, Any]) -> bool:
    """Whether the data of a dropped queue is kept."""
    found = _given(options, more)
    if unknown := found.keys() - {"keep_data"}:
        raise _unknown("drop", unknown, {"keepData"})
    return bool(found.get("keep_data", False))


def connection_of(options: Options, more: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The URL of the store, and options for ``headrace.connect``."""
    found = _given(options, more)
    driver = found.pop("driver", None)
    if not isinstance(driver, Mapping):
        raise InvalidOption(
            f'driver is {shown(driver)}: give {{"type": "postgres", …}}.', option="driver"
        )
    if unknown := found.keys() - _CONNECT_OPTIONS:
        raise _unknown("connect", unknown, _CONNECT_OPTIONS | {"driver"})
    return _store_url(dict(driver)), found


def _store_url(driver: dict[str, Any]) -> str:
    kind = driver.pop("type", None)
    url = driver.pop("connectionString", None) or driver.pop("url", None)
    if kind not in ("memory", "sqlite", "postgres"):
        raise InvalidOption(
            f"there is no driver {shown(kind)}: use memory, sqlite or postgres.", option="type"
        )
    if url is not None:
        return str(url)
    if kind == "memory":
        return f"memory://{driver.pop('name', '')}"
    if kind == "sqlite":
        if "path" not in driver:
            raise InvalidOption("the driver sqlite needs the path of a file.", option="path")
        url = f"sqlite:///{quote(str(driver.pop('path')))}"
    else:
        url = "postgresql://"
    parameters = {_PARAMETERS.get(name, name): value for name, value in driver.items()}
    return f"{url}?{urlencode(parameters, quote_via=quote)}" if parameters else url


def _given(options: Options, more: Mapping[str, Any]) -> dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidOption(f"{shown(options)} is not a mapping of options.", option="options")
    return {_snake(name): value for name, value in {**(options or {}), **more}.items()}


def _snake(name: object) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", str(name))


def _unknown(what: str, unknown: Iterable[str], known: Iterable[str]) -> InvalidOption:
    name = min(unknown)
    return InvalidOption(
        f"{what} has no option {shown(name)}: it has {', '.join(sorted(known))}.", option=name
    )
