"""What requests bring, decoded: JSON bodies and the options behind ``?``.

Nothing is guessed and nothing is ignored: a field that is not known, a key that is there twice and
an option that is there twice are refused, each with its path.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.errors import InvalidInput
from headrace.node.capacity import Capacity
from headrace.node.http import HttpError, HttpRequest

JSON_TYPES = (b"application/json", b"application/merge-patch+json")
LONG_BYTES = 256 * 1024
"""A longer body is checked for repeated keys in a thread, so that others go on."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that needs none."""


class BodyReader:
    """Reads bodies of one type."""

    def __init__(self, kind: Any, capacity: Capacity) -> None:
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
        self._fields: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
        self._capacity = capacity

    async def read(self, request: HttpRequest) -> Any:
        """The body of a request, which says that it is JSON: pages of other sites cannot say so."""
        kind = request.headers.get(b"content-type", b"")
        if kind != JSON_TYPES[0] and kind.partition(b";")[0].strip().lower() not in JSON_TYPES:
            await self._capacity.read(request)
            raise HttpError(
                415,
                "unsupported_media_type",
                "send the body as JSON: Content-Type: application/json.",
            )
        text = await self._capacity.read(request)
        try:
            body = self._decode(text)
            if len(text) > LONG_BYTES:
                await asyncio.to_thread(_refuse_repeats, text)
            else:
                _refuse_repeats(text)
        except msgspec.ValidationError as error:
            raise self._misfit(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the body is not JSON: {error}.", path="$") from None
        except RecursionError:
            raise InvalidInput(
                "the body is nested too deeply: send less depth.", path="$"
            ) from None
        return body

    def _misfit(self, text: str) -> InvalidInput:
        message, path = _placed(text)
        if message.startswith("this field is not known") and path.count(".") == 1:
            message = f"{message}: use {', '.join(self._fields)}" if self._fields else message
        return InvalidInput(f"the body does not fit at {path}: {message}.", path=path)


async def read_nothing(capacity: Capacity, request: HttpRequest) -> None:
    """Refuse a body where none is needed: a client that sends one expects that it counts."""
    if not request.max_body_bytes:
        return
    text = await capacity.read(request)
    try:
        if text.strip():
            _nothing(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InvalidInput(
            "the request has a body, and needs none: leave it out.", path="$"
        ) from None


_nothing = msgspec.json.Decoder(Nothing).decode


def options_of(kind: Any, request: HttpRequest) -> Any:
    """The options behind ``?``."""
    query = request.query
    if kind is None:
        if query:
            name = next(iter(query))
            raise InvalidInput(f"there is no option {name!r} here: leave it out.", path=f"?{name}")
        return None
    try:
        options = msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        message, path = _placed(str(error))
        path = path.replace("$.", "?").replace("$", "?")
        if message.startswith("this field is not known"):
            message = f"there is no such option: use {', '.join(kind.__struct_fields__)}"
        raise InvalidInput(f"{path} does not fit: {message}.", path=path) from None
    for name in query:
        # The text null would count as no value, though there is one.
        if getattr(options, name) is None:
            raise InvalidInput(f"?{name} does not fit: null is no value.", path=f"?{name}")
    return options


def _placed(text: str) -> tuple[str, str]:
    """The message of a validation error, and the path of the field that it is about."""
    message, _, place = text.rpartition(" - at `$")
    message, path = (message, f"${place.rstrip('`')}") if message else (text, "$")
    if unknown := _UNKNOWN.fullmatch(message):
        return "this field is not known", f"{path}.{unknown[1]}"
    if missing := _MISSING.fullmatch(message):
        return "this field is missing", f"{path}.{missing[1]}"
    return message, path


class _Repeat(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({pair[0] for pair in pairs}) < len(pairs):
        raise _Repeat


_scan = json.JSONDecoder(object_pairs_hook=_unique, parse_int=float).scan_once  # type: ignore[attr-defined]  # of the decoder in C
_pairs = json.JSONDecoder(object_pairs_hook=tuple, parse_int=float).decode


def _refuse_repeats(text: bytes) -> None:
    """Refuse an object with a key that is there twice: parsers differ in which one counts."""
    if text.count(b":") < 2:
        return
    try:
        _scan(text.decode().lstrip(), 0)
    except _Repeat:
        path = _repeated(_pairs(text.decode()), "$")
        raise InvalidInput(f"the key at {path} is there twice: send it once.", path=path) from None


def _repeated(value: Any, path: str) -> str | None:
    """The path of the first key that is there twice. Objects are tuples of pairs here."""
    if isinstance(value, list):
        steps = [(f"{path}[{index}]", one) for index, one in enumerate(value)]
    elif isinstance(value, tuple):
        steps = [(f"{path}.{key}", one) for key, one in value]
        seen: set[str] = set()
        for step, _ in steps:
            if step in seen:
                return step
            seen.add(step)
    else:
        return None
    return next((found for step, one in steps if (found := _repeated(one, step))), None)
