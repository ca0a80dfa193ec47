"""How operations travel over HTTP: what a node and the driver that talks to it have in common.

A request is ``POST /api/v1/operations/queues.claim`` with the operation's arguments as msgpack or
JSON; the response has its result in the same format, or a problem document (RFC 9457).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from headrace import errors
from headrace.contract.operations import OPERATIONS
from headrace.contract.values import Capabilities

OPERATIONS_PATH = "/api/v1/operations/"
NOTIFICATIONS_PATH = "/api/v1/notifications/"
NODE_PATH = "/api/v1/node"

MSGPACK: Final = "application/msgpack"
JSON: Final = "application/json"
PROBLEM = "application/problem+json"
PROBLEM_TYPE = "urn:headrace:problem:"
"""How the URI begins that a problem document names the kind of problem by; its code follows."""
Format = Literal["application/msgpack", "application/json"]

REQUEST_ID = "headrace-request"
"""128 random bits that name a request. A repeat of the request has the same."""
REPEAT = "headrace-repeat"
"""Marks a repeat: for how many seconds its answer has been missing."""
INCARNATION = "headrace-incarnation"
"""In a response, the process of the node; in a request, the one that is to answer it."""
PATIENCE = "headrace-patience"
"""For how many seconds the node may try; it never tries for longer than its own patience."""
TABLE = "headrace-operations"
"""The digest of the sender's table of operations, and its release: ``2aafb702e9ade555/0.1.0``."""

RESTARTED = "node_restarted"
"""The code of a node that is another incarnation than the request asks for. It did nothing."""

NOT_UNDERSTOOD = "not_understood"
"""The code for an operation or a field that the node's release does not have."""

NO_SUCH_PATH = "no_such_path"
"""The code for a path at which a node has nothing."""

HINT = b"!"
"""A notification, on the stream of them."""
KEEP_ALIVE = b"."
"""What a stream has in place of notifications when there were none for a while."""


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    version: str
    operations: str
    incarnation: str
    store: str
    capabilities: Capabilities


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as a problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool = False
    details: dict[str, Any] = {}


class Codec(NamedTuple):
    """Encodes and decodes the arguments and results of operations in one format."""

    encode: Callable[[Any], bytes]
    arguments: dict[str, Callable[[bytes], Any]]
    results: dict[str, Callable[[bytes], Any]]


@functools.cache
def codec(format: Format) -> Codec:
    """The codec of a format; made once, because decoders are made from types."""
    package = msgspec.msgpack if format == MSGPACK else msgspec.json
    decoder: Callable[[Any], Any] = package.Decoder
    return Codec(
        package.Encoder().encode,
        {name: decoder(operation.arguments).decode for name, operation in OPERATIONS.items()},
        {name: decoder(operation.result).decode for name, operation in OPERATIONS.items()},
    )


def error_classes() -> Iterator[type[errors.HeadraceError]]:
    """Every class of ``headrace.errors``."""
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.HeadraceError):
            yield value


CLASS_OF_CODE = {error.code: error for error in error_classes()}
"""The error class of each code."""
