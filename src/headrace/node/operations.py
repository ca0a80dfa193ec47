"""The driver's wire: ``POST /api/v1/operations/queues.claim`` runs that operation of the store."""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec

import headrace
from headrace.contract.items import ClaimRequest
from headrace.contract.operations import OPERATIONS, Operation, table_digest
from headrace.contract.store import Store
from headrace.contract.wire import (
    INCARNATION,
    JSON,
    MSGPACK,
    NOT_UNDERSTOOD,
    PATIENCE,
    REPEAT,
    REQUEST_ID,
    RESTARTED,
    TABLE,
    Codec,
    Format,
    codec,
)
from headrace.errors import HeadraceError, InvalidInput, OutcomeUnknown
from headrace.node.call_contents import check_contents
from headrace.node.call_sizes import check_size
from headrace.node.capacity import Capacity
from headrace.node.group_commit import NodeGroupCommit
from headrace.node.guard import Guard
from headrace.node.http import HttpError, HttpRequest, Response
from headrace.node.problems import problem_response
from headrace.node.request_log import RequestLog

log = logging.getLogger("headrace.node")

_INCARNATION, _MSGPACK, _PATIENCE, _REPEAT, _REQUEST_ID = (
    name.encode() for name in (INCARNATION, MSGPACK, PATIENCE, REPEAT, REQUEST_ID)
)

MAX_ID_CHARS = 64
_KEEP_WORK = {
    f"{part}.{method}"
    for part, methods in {
        "queues": ("settle", "extend", "heartbeat"),
        "procs": ("ack", "ack_commit", "ack_part", "ack_push", "nack", "extend", "touch"),
        "locks": ("extend", "release", "renew_places"),
        "counters": ("extend", "release"),
        "sinks": ("ack_publish",),
    }.items()
    for method in methods
}


class OperationHandler:
    """Runs operations of a store for clients elsewhere."""

    def __init__(
        self,
        store: Store,
        guard: Guard,
        capacity: Capacity,
        incarnation: str,
        *,
        groups: NodeGroupCommit | None,
    ) -> None:
        self._store = store
        self._groups = groups
        self._guard = guard
        self._capacity = capacity
        self._incarnation = incarnation.encode()
        self._patience: float = getattr(store, "patience", 0.0)
        self._log = RequestLog()

    async def __call__(self, request: HttpRequest) -> Response:
        operation = OPERATIONS.get(request.parameters["operation"])
        if operation is None:
            raise _not_understood(request, f"there is no operation {request.path}")
        request.label = operation.name
        format = _format_of(request)
        format_codec = codec(format)
        body = await self._read(request, operation)
        arguments = _decode(request, operation, format_codec, body)
        self._guard.authorize(request.identity, operation, arguments)
        check_size(operation, arguments)
        check_contents(operation, arguments)
        self._check_incarnation(request)
        id = request.header(_REQUEST_ID)
        if id is not None and len(id) > MAX_ID_CHARS:
            raise InvalidInput(f"{REQUEST_ID} is longer than {MAX_ID_CHARS} characters.")
        if id is None or not operation.writes:
            return await self._respond(request, operation, arguments, format)

        async def respond() -> Response:
            try:
                response = await self._respond(request, operation, arguments, format)
            except HeadraceError as error:
                # A refusal is an answer, too.
                response = problem_response(error)
            # A repeat that is refused before it comes here has no such header: its client still
            # does not know what became of the first request.
            response.headers = [*response.headers, (_REQUEST_ID, id.encode("latin-1"))]
            return response

        missing = _seconds(request, _REPEAT)
        if missing is not None and operation.is_repeatable(arguments):
            missing = None
        key = (request.identity.name, operation.name, id)
        return await self._log.answer(key, respond, missing)

    async def _read(self, request: HttpRequest, operation: Operation) -> bytes:
        """The body of a request, if the node has the capacity for it."""
        # A repeat may need nothing but an answer that is there.
        if _REPEAT not in request.headers:
            self._capacity.check(keeps_work=operation.name in _KEEP_WORK)
        return await self._capacity.read(request)

    async def _respond(
        self, request: HttpRequest, operation: Operation, arguments: msgspec.Struct, format: Format
    ) -> Response:
        with self._capacity.running(keeps_work=operation.name in _KEEP_WORK):
            try:
                result = await self._run(request, operation, arguments)
                return Response(codec(format).encode(result), content_type=format)
            except HeadraceError:
                raise
            except OverflowError as error:
                raise InvalidInput(
                    "a number has more than 64 bits: nothing was written; send a smaller one."
                ) from error
            except Exception as error:
                if not operation.writes:
                    raise
                log.exception("%s failed", operation.name)
                raise OutcomeUnknown(
                    "the node met an error that it did not expect, and its log has the details: "
                    "check whether this was executed."
                ) from error

    async def _run(
        self, request: HttpRequest, operation: Operation, arguments: msgspec.Struct
    ) -> Any:
        patience = _seconds(request, _PATIENCE)
        groups = self._groups
        if groups is not None and groups.includes(operation) and self._is_patient(patience):
            return await groups.send(operation, arguments)
        if operation.name == "topics.resolve":
            raise _not_understood(request, "a node answers a commit when its records have numbers")
        op = operation.build(self._store, _durable(arguments))
        if patience is not None and patience < self._patience:
            # The runner gives up when the client does.
            op.since = time.monotonic() - (self._patience - patience)
        return await self._store.arun(op)

    def _is_patient(self, patience: float | None) -> bool:
        """Whether a client can wait about as long as the node does for its store.

        Requests of others run alone, so that they may give up without the rest of a group.
        """
        return patience is None or patience >= self._patience / 2

    def _check_incarnation(self, request: HttpRequest) -> None:
        wanted = request.headers.get(_INCARNATION)
        if wanted is not None and wanted != self._incarnation:
            raise HttpError(
                409, RESTARTED, "the node was restarted: nothing was done.", retryable=True
            )


def _format_of(request: HttpRequest) -> Format:
    if request.headers.get(b"content-type") == _MSGPACK:
        return MSGPACK
    given = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if given == MSGPACK:
        return MSGPACK
    if given == JSON:
        return JSON
    raise HttpError(
        415, "unsupported_media_type", f"send an operation as {MSGPACK} or {JSON}, not {given!r}."
    )


def _decode(
    request: HttpRequest, operation: Operation, codec: Codec, body: bytes
) -> msgspec.Struct:
    try:
        arguments: msgspec.Struct = codec.arguments[operation.name](body)
    except msgspec.ValidationError as error:
        raise _not_understood(
            request, f"the arguments of {operation.name} do not fit: {error}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the body is not what its content type says: {error}.") from None
    except RecursionError:
        raise InvalidInput("the body is nested too deeply: send less depth.") from None
    return arguments


def _durable(arguments: msgspec.Struct) -> msgspec.Struct:
    """Claims that a client would have to confirm later do not travel: confirming is a function."""
    request = getattr(arguments, "request", None)
    if isinstance(request, ClaimRequest) and request.may_confirm:
        durable = msgspec.structs.replace(request, may_confirm=False)
        return msgspec.structs.replace(arguments, request=durable)
    return arguments


def _not_understood(request: HttpRequest, reason: str) -> HttpError:
    """The refusal of what may be right in another release: says both, and the next step."""
    theirs, _, version = (request.header(TABLE.encode()) or "").partition("/")
    ours = headrace.__version__
    reason = reason.rstrip(".")
    if not version:
        next_step = f"this node is headrace {ours}; see its documentation."
    elif theirs == table_digest():
        next_step = f"client and node are headrace {ours}, so this is a mistake: please report it."
    else:
        next_step = (
            f"the client is headrace {version}, the node is headrace {ours}: run the same release "
            "on both sides."
        )
    return HttpError(400, NOT_UNDERSTOOD, f"{reason}: {next_step}", client=version, node=ours)


def _seconds(request: HttpRequest, header: bytes) -> float | None:
    text = request.headers.get(header)
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        raise InvalidInput(f"the header {header.decode()} is no number of seconds.") from None
