"""The API as an AsyncAPI document: what a node receives and sends, over HTTP and as streams.

Each operation of the API is there by its name. A request and its answer are a message that the node
receives on the channel of its path, and the reply on the same channel; a stream is a channel on
which the node sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import headrace
from headrace.contract.wire import JSON, PROBLEM, Problem
from headrace.local_nodes import DEFAULT_LISTEN
from headrace.node.documents.example import NAMES, request_body
from headrace.node.documents.openapi import LICENCE, SECURITY, SUMMARY
from headrace.node.documents.operations import DocumentedOperation, operations, tag_descriptions
from headrace.node.documents.schemas import Schemas
from headrace.node.resources.serve import BASE

Document = dict[str, Any]
HTTP_BINDING = "0.3.0"
WS_BINDING = "0.1.0"
_PROBLEM = "problem"


def asyncapi(described: Sequence[DocumentedOperation] | None = None) -> Document:
    """The AsyncAPI document."""
    described = operations() if described is None else described
    schemas = Schemas(operation.endpoint for operation in described)
    channels: dict[str, Document] = {}
    for operation in described:
        channel = channels.setdefault(_channel(operation), _empty_channel(operation))
        channel["messages"] |= dict(_messages(operation, schemas))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace",
            "version": headrace.__version__,
            "description": SUMMARY,
            "license": {"name": LICENCE["name"]},
            "tags": [
                {"name": name, "description": text}
                for name, text in tag_descriptions(described).items()
            ],
        },
        "defaultContentType": JSON,
        "servers": {
            "http": _server("http", "Requests, and streams of events."),
            "socket": _server("ws", "WebSockets."),
        },
        "channels": channels,
        "operations": {operation.name: _described(operation, schemas) for operation in described},
        "components": {
            "schemas": schemas.components,
            "securitySchemes": SECURITY,
            "messages": {
                _PROBLEM: {
                    "summary": "What went wrong, and what to do next.",
                    "contentType": PROBLEM,
                    "payload": schemas.of(Problem),
                }
            },
        },
    }


def _server(protocol: str, description: str) -> Document:
    return {
        "host": "{address}",
        "protocol": protocol,
        "description": description,
        "variables": {"address": {"default": DEFAULT_LISTEN}},
        "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in SECURITY],
    }


def _channel(operation: DocumentedOperation) -> str:
    """The name of a channel: that of its path, such as ``queues.queue.items``."""
    return operation.endpoint.path[1:].replace("/", ".").translate({ord("{"): None, ord("}"): None})


def _empty_channel(operation: DocumentedOperation) -> Document:
    is_socket = operation.endpoint.message is not None
    channel: Document = {
        "address": BASE + operation.endpoint.path,
        "servers": [{"$ref": f"#/servers/{'socket' if is_socket else 'http'}"}],
        "messages": {},
    }
    if is_socket:
        channel["bindings"] = {"ws": {"method": "GET", "bindingVersion": WS_BINDING}}
    if operation.names:
        channel["parameters"] = {name: {"examples": [NAMES[name]]} for name in operation.names}
    return channel


def _messages(operation: DocumentedOperation, schemas: Schemas) -> Iterator[tuple[str, Document]]:
    endpoint = operation.endpoint
    yield _PROBLEM, {"$ref": f"#/components/messages/{_PROBLEM}"}
    if endpoint.event is not None:
        yield from _sent(schemas, endpoint.event)
        yield from _sent(schemas, endpoint.message)
        return
    request: Document = {"summary": endpoint.summary + "."}
    if endpoint.body is not None:
        request["payload"] = schemas.of(endpoint.body)
        request["examples"] = [{"payload": request_body(endpoint, operation.example.good)}]
    yield _request(operation), request
    answer: Document = {
        "bindings": {"http": {"statusCode": endpoint.status, "bindingVersion": HTTP_BINDING}}
    }
    if endpoint.answer is not None:
        answer["payload"] = schemas.of(endpoint.answer)
        answer["examples"] = [{"payload": operation.good["body"]}]
    yield _answer(operation), answer


def _sent(schemas: Schemas, kind: Any) -> Iterator[tuple[str, Document]]:
    """The messages of a stream or a socket, each by its type."""
    for name, schema in schemas.parts(kind).items() if kind is not None else ():
        yield name, {"payload": schema}


def _request(operation: DocumentedOperation) -> str:
    return f"{operation.name}_request"


def _answer(operation: DocumentedOperation) -> str:
    return f"{operation.name}_answer"


def _described(operation: DocumentedOperation, schemas: Schemas) -> Document:
    endpoint, channel = operation.endpoint, f"#/channels/{_channel(operation)}"
    described: Document = {
        "summary": endpoint.summary,
        "channel": {"$ref": channel},
        "tags": [{"name": operation.tag}],
    }
    if operation.description:
        described["description"] = operation.description
    if endpoint.event is not None:
        return {**described, **_streamed(operation, schemas, channel)}
    http: Document = {"method": endpoint.method, "bindingVersion": HTTP_BINDING}
    options = dict(schemas.fields(endpoint.query))
    if options:
        http["query"] = {"type": "object", "properties": options, "additionalProperties": False}
    answer = {"$ref": f"{channel}/messages/{_answer(operation)}"}
    return {
        "action": "receive",
        **described,
        "bindings": {"http": http},
        "messages": [{"$ref": f"{channel}/messages/{_request(operation)}"}],
        "reply": {
            "channel": {"$ref": channel},
            "messages": [answer, {"$ref": f"{channel}/messages/{_PROBLEM}"}],
        },
    }


def _streamed(operation: DocumentedOperation, schemas: Schemas, channel: str) -> Document:
    """What the node sends; over a WebSocket as the reply to what it receives."""
    endpoint = operation.endpoint
    events = [{"$ref": f"{channel}/messages/{name}"} for name in schemas.parts(endpoint.event)]
    if endpoint.message is None:
        return {"action": "send", "messages": events}
    messages = schemas.parts(endpoint.message)
    return {
        "action": "receive",
        "messages": [{"$ref": f"{channel}/messages/{name}"} for name in messages],
        "reply": {"channel": {"$ref": channel}, "messages": events},
    }
