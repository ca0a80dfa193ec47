"""Errors as problem documents (RFC 9457): one table of statuses for every error of Headrace."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import msgspec

from headrace import errors
from headrace.contract.wire import PROBLEM, Problem
from headrace.node.http import HttpError, Response, problem_type

RETRY_AFTER_SECONDS = 1
_encode = msgspec.json.Encoder().encode

_LATER = [(b"retry-after", b"%d" % RETRY_AFTER_SECONDS)]
_HEADERS: dict[int, list[tuple[bytes, bytes]]] = {
    401: [(b"www-authenticate", b'Bearer realm="headrace", Basic realm="headrace"')],
    426: [(b"upgrade", b"websocket")],
    # The same request may succeed later.
    429: _LATER,
    503: _LATER,
}

STATUS: dict[type[errors.HeadraceError], int] = {
    errors.HeadraceError: 500,
    errors.InvalidInput: 400,
    errors.InvalidTopicName: 400,
    errors.InvalidProcName: 400,
    errors.InvalidQueueName: 400,
    errors.ReservedName: 400,
    errors.InvalidBody: 400,
    errors.BodyTooLarge: 413,
    errors.InvalidPosition: 400,
    errors.InvalidOption: 400,
    errors.InvalidProcessor: 400,
    errors.InvalidSetting: 400,
    errors.InvalidKeyValues: 400,
    errors.InvalidQuery: 400,
    errors.InvalidUrl: 400,
    errors.NotFound: 404,
    errors.UnknownStore: 404,
    errors.UnknownTopic: 404,
    errors.UnknownSeq: 404,
    errors.UnknownProc: 404,
    errors.UnknownPipeline: 404,
    errors.UnknownQueue: 404,
    errors.UnknownSink: 404,
    errors.UnknownLock: 404,
    errors.UnknownLimit: 404,
    errors.UnknownItem: 404,
    errors.UnknownToken: 404,
    errors.UnknownSchedule: 404,
    errors.ProcError: 409,
    errors.ProcNameTaken: 409,
    errors.ProcDisabled: 409,
    errors.ProcAlreadyDisabled: 409,
    errors.ProcAlreadyActive: 409,
    errors.ProcOvertaken: 410,
    errors.NothingClaimed: 409,
    errors.ClaimLost: 409,
    errors.QueueError: 409,
    errors.QueueExists: 409,
    errors.ItemLost: 409,
    errors.ItemGone: 410,
    errors.ItemActive: 409,
    errors.SubjectTaken: 409,
    errors.QueueFull: 409,
    errors.PushTimeout: 409,
    errors.LimitExists: 409,
    errors.ScheduleExists: 409,
    errors.UpdateRefused: 409,
    errors.WorkerExists: 409,
    errors.SinkError: 409,
    errors.SinkTaken: 409,
    errors.SinkRewound: 409,
    errors.StageLost: 409,
    errors.LockError: 409,
    errors.LockTaken: 409,
    errors.LockLost: 409,
    errors.LimitError: 409,
    errors.LimitReached: 409,
    errors.SlotsLost: 409,
    errors.AccessError: 403,
    errors.NotAuthenticated: 401,
    errors.NotAllowed: 403,
    errors.TokenError: 409,
    errors.TokenEnded: 409,
    errors.TooManySecrets: 409,
    errors.KeyReused: 422,
    errors.NotCommitted: 409,
    errors.WaitTimeout: 409,
    errors.NotConnected: 409,
    errors.NodeError: 500,
    errors.NodeExists: 409,
    errors.NodeLost: 500,
    errors.SparkUnavailable: 500,
    errors.StoreError: 500,
    errors.StoreUnavailable: 503,
    errors.StoreBusy: 503,
    errors.OutcomeUnknown: 500,
    errors.MalformedRecord: 500,
    errors.SchemaTooNew: 500,
    errors.SchemaTooOld: 500,
    errors.UnsupportedStore: 500,
}
"""The status of every error."""


Report = Callable[[Problem], Response]
"""Makes the response for an error."""


def respond_problem(problem: Problem) -> Response:
    """A problem document as a response, with the headers that its status needs."""
    headers = _HEADERS.get(problem.status, ())
    return Response(_encode(problem), status=problem.status, content_type=PROBLEM, headers=headers)


def problem_response(
    error: errors.HeadraceError | HttpError, report: Report = respond_problem
) -> Response:
    """The response that reports an error, with the headers that it brings."""
    if not isinstance(error, HttpError):
        return report(problem_of(error))
    response = report(error.problem)
    response.headers = [*response.headers, *error.headers]
    return response


def problem_of(error: errors.HeadraceError) -> Problem:
    """The document for an error."""
    return Problem(
        type=problem_type(error.code),
        title=(inspect.getdoc(type(error)) or "").split("\n\n", maxsplit=1)[0].replace("\n", " "),
        status=next(STATUS[base] for base in type(error).__mro__ if base in STATUS),
        detail=error.message,
        code=error.code,
        retryable=error.retryable,
        details=msgspec.to_builtins(error.details, enc_hook=str, str_keys=True),
    )


def unexpected() -> Problem:
    """The document for an error that nobody foresaw. The node's log has it, the client does not."""
    return Problem(
        type=problem_type("internal_error"),
        title="The node failed.",
        status=500,
        detail="the node met an error that it did not expect: its log has the details. Please "
        "report it.",
        code="internal_error",
    )
