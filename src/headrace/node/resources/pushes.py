"""``POST /queues/{queue}/items``: documents that are pushed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from headrace.contract.operations import OPERATIONS
from headrace.core.documents import Doc, document
from headrace.core.pushes import DocumentResult, PushResult, debounce, push_call, result_of
from headrace.errors import InvalidInput, InvalidOption, QueueFull
from headrace.model.checks import each
from headrace.model.codec import DEFAULT_MAX_BODY, encode_value
from headrace.model.queues.items import Document
from headrace.model.queues.settings import RetryPosition, WhileActive
from headrace.node.resources.endpoint import ApiCall, Created, Endpoint
from headrace.node.resources.key_values import typed
from headrace.node.resources.long_polls import checked_wait, while_connected
from headrace.node.resources.values import Seconds, Time

PUSH = OPERATIONS["queues.push"]


class DocumentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A payload and its options."""

    payload: Any
    subject: str | None = None
    priority: int = 0
    at: Time | None = None
    delay: Seconds | None = None
    headers: dict[str, str] | None = None
    max_attempts: int | None = None
    retry_position: RetryPosition | None = None
    updateable: bool | None = None
    lease: Seconds | None = None
    channel: dict[str, Any] | None = None


class PushBody(DocumentBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One document, or ``items`` for many: all are pushed, or none."""

    payload: Any = UNSET
    items: Sequence[DocumentBody] | None = None
    mode: Literal["push", "upsert"] = "push"
    while_active: WhileActive | None = None
    debounce: Seconds | None = None
    max_wait: Seconds | None = None
    wait: float = 0.0


class PushView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one document."""

    id: int | None
    outcome: Literal["pushed", "updated", "next", "skipped"] = "pushed"
    reason: str | None = None


class PushedView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of many documents, in order."""

    items: list[PushView]
    pushed: int
    updated: int
    skipped: int


async def push_items(call: ApiCall[PushBody, None]) -> Any:
    """One document, or a list of them."""
    answer = await pushed(call)
    if isinstance(answer, PushedView) or answer.id is None:
        return answer
    return Created(answer, call.below(answer.id))


async def pushed(call: ApiCall[PushBody, None]) -> PushView | PushedView:
    """Push what a body brings, and say what became of it."""
    body = call.body
    if body.items is None:
        if body.payload is UNSET:
            raise InvalidOption(
                "the body has neither payload nor items: give one.", option="payload"
            )
        result = await _push(call, [body], "$")
        return _push_view(result.results[0]) if result.notes else PushView(id=result.ids[0])
    if body.payload is not UNSET or _has_options(body):
        raise InvalidOption(
            "the body has items, so payload and the options of a document are in each of these.",
            option="items",
        )
    result = await _push(call, body.items, "$.items[{}]")
    return PushedView(
        items=[_push_view(one) for one in result.results],
        pushed=result.pushed,
        updated=result.updated,
        skipped=result.skipped,
    )


async def _push(
    call: ApiCall[PushBody, None], given: Sequence[DocumentBody], place: str
) -> PushResult:
    body, key = call.body, call.key
    wait = checked_wait(body.wait)
    if body.mode == "push":
        for name in ("while_active", "debounce", "max_wait"):
            if getattr(body, name) is not None:
                raise InvalidOption(
                    f"{name} is for mode upsert: leave it out, or upsert.", option=name
                )
    try:
        documents = each(given, _document)
    except InvalidInput as error:
        raise _placed(error, place) from None
    push = push_call(
        call["queue"],
        tuple(documents),
        mode=body.mode,
        while_active=body.while_active,
        wait=debounce(body.debounce, body.max_wait),
        key=key,
    )
    # Without the client, which would have to be made first.
    outcomes = await call.store.run_call(PUSH, PUSH.arguments(calls=[push]))
    try:
        return result_of(outcomes[0])
    except QueueFull:
        if not wait:
            raise
    return await while_connected(call, _push_in_time(call, each(given, _doc), wait))


async def _push_in_time(
    call: ApiCall[PushBody, None], documents: list[Doc], wait: float
) -> PushResult:
    """Push once the queue has capacity."""
    body, queue = call.body, call.hr.queue(call["queue"])
    if body.mode == "push":
        return await queue.push_many(documents, key=call.key, wait=wait)
    return await queue.upsert_many(
        documents,
        while_active=body.while_active,
        debounce=body.debounce,
        max_wait=body.max_wait,
        key=call.key,
        wait=wait,
    )


def _document(body: DocumentBody) -> Document:
    if _has_options(body):
        return document(_doc(body), max_body=DEFAULT_MAX_BODY)
    return Document(payload=encode_value(body.payload, "$", max_body=DEFAULT_MAX_BODY))


def _doc(body: DocumentBody) -> Doc:
    channel = None if body.channel is None else typed(body.channel, "channel")
    return Doc(
        body.payload,
        subject=body.subject,
        priority=body.priority,
        at=body.at,
        delay=body.delay,
        headers=body.headers,
        max_attempts=body.max_attempts,
        retry_position=body.retry_position,
        updateable=body.updateable,
        lease=body.lease,
        channel=channel,
    )


def _has_options(body: DocumentBody) -> bool:
    """Whether anything is said but the payload."""
    return msgspec.structs.astuple(body)[1 : len(_PLAIN)] != _PLAIN[1:]


_PLAIN = msgspec.structs.astuple(DocumentBody(payload=None))


def _placed(error: InvalidInput, place: str) -> InvalidInput:
    """An error about one of some documents, with its place in the request."""
    row = error.details.pop("row")
    inner = str(error.details.get("path", error.details.get("option", "")))
    inner = inner.removeprefix(f"$[{row}]").removeprefix(".")
    field = re.match(r"\w*", inner)
    if field is None or field[0] not in DocumentBody.__struct_fields__:
        inner = f"payload.{inner}" if inner[:1].isalpha() else f"payload{inner}"
    error.details["path"] = f"{place.format(row)}.{inner}"
    return error


def _push_view(one: DocumentResult) -> PushView:
    return PushView(id=one.id, outcome=one.outcome, reason=one.reason)


ENDPOINTS = [
    Endpoint(
        method="POST",
        path="/queues/{queue}/items",
        summary="Push items",
        handle=push_items,
        body=PushBody,
        answer=PushView | PushedView,
        status=201,
        takes_key=True,
        example={"payload": {"to": "ann"}, "subject": "ann", "delay": 30},
    ),
]
