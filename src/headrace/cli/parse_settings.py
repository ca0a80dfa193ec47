"""Settings of a queue as people write them: ``OPTION=VALUE``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_type_hints

import msgspec

from headrace.core.queue_settings import TIMES, QueueOptions, changes_of
from headrace.errors import InvalidOption
from headrace.model.queues.settings import DEFAULTS, QueueSettings, changed, check_option
from headrace.model.times import is_duration

_TYPES = get_type_hints(QueueSettings)
_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_NAMES = {"dead_to": "names separated by commas", "keep_superseded": "a topic"}
NOTHING = "null"
FOREVER = "forever"


def parse_settings(pairs: Sequence[str]) -> QueueOptions:
    """Settings from ``OPTION=VALUE`` pairs; ``InvalidOption`` names the first invalid one."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InvalidOption(f"{pair!r} must be option=value.", option=pair)
        option = check_option(name)
        settings[option] = _parse_value(option, text)
        # Each setting is checked alone, so that the error names it.
        changed(DEFAULTS, changes_of({option: settings[option]}))
    return cast("QueueOptions", settings)


def _parse_value(option: str, text: str) -> Any:
    if option in TIMES and is_duration(text):
        return text
    if option == "dead_to":
        return tuple(name for name in text.split(",") if name)
    if option == "keep_superseded":
        return None if text in ("", NOTHING) else text
    try:
        if option == "backoff":
            return msgspec.json.decode(text, type=_TYPES[option])
        word = NOTHING if (option, text) == ("keep_dead", FOREVER) else text
        if _TYPES[option] is bool:
            word = _BOOLEANS.get(word, word)
        return msgspec.convert(word, _TYPES[option], strict=False)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidOption(
            f"{option} is {text!r}: use {allowed_values(option)}.", option=option
        ) from error


def none_word(option: str) -> str:
    """The word for a setting without a value."""
    return FOREVER if option == "keep_dead" else NOTHING


def allowed_values(option: str) -> str:
    """The values that an option accepts, for an error message."""
    schema = msgspec.json.schema(_TYPES[option])
    alternatives = schema.get("anyOf", [schema])
    words = [word for each in alternatives for word in _allowed_by(option, each)]
    return ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]


def _allowed_by(option: str, schema: dict[str, Any]) -> list[str]:
    if option in _NAMES and schema.get("type") != "null":
        return [_NAMES[option]]
    if "enum" in schema:
        return [str(name) for name in schema["enum"]]
    match schema.get("type"):
        case "boolean":
            return ["yes", "no"]
        case "integer":
            return ["a whole number"]
        case "number" if option in TIMES:
            return ["seconds", "a duration like 5m"]
        case "null":
            return [none_word(option)]
        case _:
            return ['JSON like {"first": 1, "factor": 2, "longest": 3600, "jitter": 0.2}']
