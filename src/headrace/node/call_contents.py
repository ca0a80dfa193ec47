"""What a client has to have checked before it calls an operation: names, and texts that are JSON.

Stores rely on it (``contract.store``), and every client of ours does it. A node cannot rely on the
programs of others: a body that is not JSON would fail all readers of its topic.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from headrace.contract.items import Outcome, PushCall
from headrace.contract.operations import Operation
from headrace.contract.sinks import QUEUE
from headrace.contract.values import CommitCall, CommitPart
from headrace.core.documents import check_priority, check_subject
from headrace.core.schedules import check_timing
from headrace.errors import InvalidBody, InvalidOption
from headrace.model.checks import MAX_COUNT, positive
from headrace.model.names import check_proc, check_queue, check_schedule, check_topic
from headrace.model.query.key_values import KeyValues
from headrace.model.queues.items import BYTES, Document, Overrides
from headrace.model.queues.settings import MAX_SECONDS, NO_LIMIT
from headrace.model.schedules.actions import CommitAction, PushAction
from headrace.model.schedules.schedule import ScheduleDefinition
from headrace.model.times import MAX_MS, moment_ms
from headrace.model.topics.positions import check_offset

T = TypeVar("T")

_json = msgspec.json.Decoder(msgspec.Raw)
_documents = msgspec.json.Decoder(Document)
_header_lines = msgspec.json.Decoder(dict[str, str] | None)
_headers = msgspec.json.Decoder(dict[str, str])
_overrides = msgspec.json.Decoder(Overrides)


def check_contents(operation: Operation, arguments: msgspec.Struct) -> None:
    """Raise ``InvalidInput`` for a name that is not allowed, or a text of another form."""
    check = _CHECKS.get(operation.name)
    if check is not None:
        check(arguments)


def _check_calls(calls: Iterable[CommitCall]) -> None:
    for call in calls:
        _check_ms("key_ttl_ms", call.key_ttl_ms)
        for part in call.parts:
            check_topic(part.topic)
            _check_lines(part.body, part)


def _check_lines(text: str, part: CommitPart) -> None:
    _check_count(text, part, _json)
    if part.headers is not None:
        _check_count(part.headers, part, _header_lines)


def _check_count(text: str, part: CommitPart, decoder: msgspec.json.Decoder[Any]) -> None:
    """A line for each record, and a value that fits in each line."""
    try:
        found = len(decoder.decode_lines(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidBody(
            f"records for {part.topic!r} are not lines of JSON: {error}.", path=""
        ) from None
    is_gapless = "\n\n" not in text and not text.startswith("\n") and not text.endswith("\n")
    if not is_gapless or found != part.count or text.count("\n") + 1 != part.count:
        raise InvalidBody(
            f"records for {part.topic!r}: there are {found} in the body, not {part.count}, or they "
            "are not in lines of their own.",
            path="",
        )


def _check_pushes(calls: Iterable[PushCall]) -> None:
    for call in calls:
        check_queue(call.queue)
        for name in ("debounce_ms", "max_wait_ms", "key_ttl_ms"):
            _check_ms(name, getattr(call, name))
        for document in call.documents:
            _check_document(document)


def _check_document(document: Document) -> None:
    _check_payload(document.payload, document.format)
    check_priority(document.priority)
    _check_ms("delay", document.delay)
    if document.subject is not None:
        check_subject(document.subject)
    if document.due is not None:
        moment_ms("due", document.due)
    if document.headers is not None:
        _check_json(document.headers, _headers)
    if document.overrides is not None:
        _check_overrides(_check_json(document.overrides, _overrides))
    if document.key_values is not None:
        KeyValues.read(document.key_values)


def _check_overrides(overrides: Overrides) -> None:
    attempts, lease = overrides.max_attempts, overrides.lease
    if attempts is not None and attempts != NO_LIMIT and not 1 <= attempts <= MAX_COUNT:
        raise InvalidOption(
            f"max_attempts is {attempts}: use 1 or more, or -1 for no limit.",
            option="max_attempts",
        )
    if lease is not None and not 0.001 <= lease <= MAX_SECONDS:
        raise InvalidOption(f"lease is {lease}: use 0.001 or more, in seconds.", option="lease")


def _check_ms(option: str, value: int | None) -> None:
    if value is not None and not 0 <= value <= MAX_MS:
        raise InvalidOption(
            f"{option} is {value}: use milliseconds from 0 to {MAX_MS}.", option=option
        )


def _check_payload(text: str, format: int) -> None:
    if format != BYTES:
        _check_json(text, _json)
        return
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidBody(f"a payload of bytes is not base64: {error}.", path="") from None


def _check_json(text: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidBody(
            f"a payload, or what belongs to it, is not JSON of its form: {error}.", path=""
        ) from None


def _check_outcomes(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        _check_calls(outcome.commits)
        _check_pushes(outcome.pushes)


def _check_staged(parts: Iterable[CommitPart]) -> None:
    for part in parts:
        if not part.topic.startswith(QUEUE):
            _check_calls([CommitCall(parts=(part,))])
            continue
        check_queue(part.topic.removeprefix(QUEUE))
        _check_lines(part.body, part)
        try:
            documents = _documents.decode_lines(part.body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidBody(f"staged documents do not fit: {error}.", path="") from None
        for document in documents:
            _check_document(document)


def _check_edit(payload: tuple[str, int] | None) -> None:
    if payload is not None:
        _check_payload(*payload)


def _check_specs(specs: Iterable[Any]) -> None:
    for spec in specs:
        check_proc(spec.name)
        check_topic(spec.topic)
        check_offset(spec.offset)


def _check_definition(definition: ScheduleDefinition) -> None:
    check_timing(definition.timing)
    _check_ms("spread", definition.spread_ms)
    for option in ("starts_at", "ends_at"):
        if getattr(definition, option) is not None:
            moment_ms(option, getattr(definition, option))
    if definition.max_fires is not None:
        positive("max_fires", definition.max_fires)
    action = definition.action
    match action:
        case PushAction():
            check_queue(action.queue)
            _check_document(action.document)
        case CommitAction():
            check_topic(action.topic)
            _check_lines(action.body, CommitPart(action.topic, 1, action.body))
            if action.headers is not None:
                _check_json(action.headers, _headers)
        case _:
            check_queue(action.queue)


def _check_schedule(given: Any) -> None:
    check_schedule(given.name)
    _check_definition(given.definition)


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "topics.commit": lambda given: _check_calls(given.calls),
    "queues.push": lambda given: _check_pushes(given.calls),
    "queues.settle": lambda given: _check_outcomes(given.outcomes),
    "queues.create": lambda given: check_queue(given.name),
    "queues.add_dead_queue": lambda given: check_queue(given.to),
    "queues.redrive": lambda given: given.to is None or check_queue(given.to),
    "queues.edit_item": lambda given: _check_edit(given.payload),
    "procs.create": lambda given: _check_specs([given.spec]),
    "procs.ack_commit": lambda given: _check_calls([given.call]),
    "procs.ack_part": lambda given: _check_calls([given.call]),
    "procs.ack_push": lambda given: _check_pushes(given.calls),
    "pipelines.define": lambda given: _check_specs(given.specs),
    "sinks.stage": lambda given: _check_staged(given.parts),
    "schedules.add": _check_schedule,
}
"""Operations that store what a client gives them. Others only name what there is, or is not."""
