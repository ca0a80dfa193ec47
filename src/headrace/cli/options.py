"""Settings of a queue as people write them: ``option=value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_type_hints

import msgspec

from headrace.core.queue_settings import TIMES, Settings, changes_of
from headrace.core.times import is_duration
from headrace.errors import InvalidOption
from headrace.model.queues import DEFAULTS, QueueSettings, changed, option_of

_TYPES = get_type_hints(QueueSettings)
_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
NOTHING = "null"
FOREVER = "forever"


def settings_of(pairs: Sequence[str]) -> Settings:
    """Settings from ``option=value``, each checked by itself; ``InvalidOption`` names the bad."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InvalidOption(f"{pair!r} must be option=value.", option=pair)
        option = option_of(name)
        found[option] = _value(option, text)
        changed(DEFAULTS, changes_of({option: found[option]}))
    return cast("Settings", found)


def _value(option: str, text: str) -> Any:
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
            word = _WORDS.get(word, word)
        return msgspec.convert(word, _TYPES[option], strict=False)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidOption(f"{option} is {text!r}: use {_use(option)}.", option=option) from error


def none_of(option: str) -> str:
    """How it is written that a setting has no value."""
    return FOREVER if option == "keep_dead" else NOTHING


def _use(option: str) -> str:
    """What an option may be, in words."""
    kind = msgspec.json.schema(_TYPES[option])
    kinds = kind.get("anyOf", [kind])
    words = [word for one in kinds for word in _kind(option, one)]
    return ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]


def _kind(option: str, kind: dict[str, Any]) -> list[str]:
    if "enum" in kind:
        return [str(name) for name in kind["enum"]]
    match kind.get("type"):
        case "boolean":
            return ["yes", "no"]
        case "integer":
            return ["a whole number"]
        case "number" if option in TIMES:
            return ["seconds", "words like 5m"]
        case "null":
            return [none_of(option)]
        case _:
            return ['JSON like {"first": 1, "factor": 2, "longest": 3600, "jitter": 0.2}']
