"""Rules as Willow's limiter writes them, in their ``GroupByKeyValues``.

Willow counts items under keys of its own beside those of their channel: ``_willow_queue_name`` and
``_willow_running``, or ``_willow_enqueued`` and ``_willow_<key>``. Here a rule says with ``queue``
and ``on`` what it counts, so these keys are read as that, and written so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from headrace.errors import InvalidInput
from headrace.model.fields import joined, refuse, shown
from headrace.model.limits.rules import EVERYTHING, LimitRule, Subject
from headrace.model.query.key_values import KeyValues, value_from_json, value_to_json
from headrace.model.query.typed_values import ANY, Type, Value

PREFIX = "_willow_"
QUEUE = f"{PREFIX}queue_name"
RUNNING = f"{PREFIX}running"
ENQUEUED = f"{PREFIX}enqueued"
_TRUE = Value(Type.STRING, "true")


class Pattern(NamedTuple):
    """What a rule is about."""

    key_values: KeyValues
    queue: str | None = None
    on: Subject = "running"

    def to_json(self) -> dict[str, Any]:
        """As Willow writes it."""
        pairs = self.key_values.to_json()
        if self.on == "enqueued":
            pairs = {f"{PREFIX}{key}": value for key, value in pairs.items()}
            pairs[ENQUEUED] = value_to_json(_TRUE)
        elif self.queue is not None:
            pairs[RUNNING] = value_to_json(_TRUE)
        if self.queue is not None:
            pairs[QUEUE] = value_to_json(Value(Type.STRING, self.queue))
        return pairs


def pattern_of(rule: LimitRule, key_values: KeyValues | None = None) -> Pattern:
    """What a rule is about, or an override of it with these key-values."""
    return Pattern(rule.pattern if key_values is None else key_values, rule.queue, rule.on)


def read_pattern(given: object, path: str) -> Pattern:
    """A pattern from its JSON."""
    if not isinstance(given, Mapping) or not any(str(key).startswith(PREFIX) for key in given):
        return Pattern(KeyValues.from_json(given, path, allow_any=True))
    marks = {key: given[key] for key in (QUEUE, RUNNING, ENQUEUED) if key in given}
    others = {key: value for key, value in given.items() if key not in marks}
    for key in (RUNNING, ENQUEUED):
        if key in marks and value_from_json(marks[key]) != _TRUE:
            _refuse(path, key, 'is the string "true", or not there.')
    queue = _queue(marks[QUEUE], path) if QUEUE in marks else None
    if RUNNING in marks and ENQUEUED in marks:
        _refuse(path, ENQUEUED, f"give this or {RUNNING}: a rule counts what runs, or all items.")
    if ENQUEUED in marks:
        return Pattern(_key_values(_without_prefix(others, path), path), queue, "enqueued")
    if RUNNING in marks and queue is not None:
        return Pattern(_key_values(others, path), queue)
    if RUNNING in marks:
        _refuse(path, RUNNING, f"is for one queue: give {QUEUE} too, or neither for all queues.")
    if queue is not None:
        _refuse(path, QUEUE, f"counts what? Give {RUNNING} or {ENQUEUED} too.")
    [key, *_] = [key for key in others if key.startswith(PREFIX)]
    _refuse(path, key, f"is Willow's own: give {ENQUEUED} too, or leave {PREFIX!r} out.")


def _queue(given: object, path: str) -> str:
    value = value_from_json(given)
    if value == ANY:
        reason = (
            "is the name of one queue here. For a limit of each queue use its MaxItems: PUT "
            "/v1/queues/<queue>."
        )
        _refuse(path, QUEUE, reason)
    if value.type != Type.STRING:
        _refuse(path, QUEUE, f"{shown(value)} is no name of a queue.")
    return str(value.data)


def _without_prefix(pairs: dict[str, Any], path: str) -> dict[str, Any]:
    for key in pairs:
        if not key.startswith(PREFIX):
            _refuse(path, key, f"enqueued items are counted under {PREFIX + key}: write it so.")
    return {key.removeprefix(PREFIX): value for key, value in pairs.items()}


def _key_values(pairs: dict[str, Any], path: str) -> KeyValues:
    return KeyValues.from_json(pairs, path, allow_any=True) if pairs else EVERYTHING


def _refuse(path: str, key: str, reason: str) -> NoReturn:
    refuse(InvalidInput, joined(path, f"[{key}]"), reason)
