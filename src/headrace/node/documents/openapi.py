"""The API as an OpenAPI document: for clients that are generated, and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import headrace
from headrace.contract.wire import JSON, PROBLEM, Problem
from headrace.node.documents.example import NAMES, request_body
from headrace.node.documents.operations import DocumentedOperation, operations, tag_descriptions
from headrace.node.documents.schemas import Schemas, name_schema
from headrace.node.resources.endpoint import MAX_KEY_LENGTH
from headrace.node.resources.serve import BASE

Document = dict[str, Any]
SUMMARY = (
    "Durable queues and commit-log topics in the database you already run. Times are RFC 3339, "
    "durations are seconds or words such as `5m`, and unknown fields are refused. An error is a "
    "problem document (RFC 9457) whose `code` is stable."
)
LICENCE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token: `headrace token create` makes one.",
    },
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "An access token as the password; the name is ignored.",
    },
}
EVENTS = "text/event-stream"
SHARED = frozenset({401, 403, 408, 413, 415, 421, 431, 500, 503})
"""Statuses that mean the same everywhere."""
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A request that is repeated with its key counts once, and gets the first answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
}


def openapi(described: Sequence[DocumentedOperation] | None = None) -> Document:
    """The OpenAPI document."""
    described = operations() if described is None else described
    schemas = Schemas(operation.endpoint for operation in described)
    paths: dict[str, Any] = {}
    for operation in described:
        endpoint = operation.endpoint
        entry = paths.setdefault(endpoint.path, {})
        entry[endpoint.method.lower()] = _described(operation, schemas)
    tags = tag_descriptions(described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": headrace.__version__,
            "summary": "The HTTP API of a Headrace node",
            "description": SUMMARY,
            "license": LICENCE,
        },
        "servers": [{"url": BASE, "description": "The node that serves this document"}],
        "security": [{name: []} for name in SECURITY],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": _shared_responses(described, schemas),
            "securitySchemes": SECURITY,
        },
    }


def _described(operation: DocumentedOperation, schemas: Schemas) -> Document:
    endpoint = operation.endpoint
    described: Document = {
        "operationId": operation.name,
        "summary": endpoint.summary,
        "tags": [operation.tag],
    }
    if operation.description:
        described["description"] = operation.description
    parameters = list(_parameters(operation, schemas))
    if parameters:
        described["parameters"] = parameters
    if endpoint.body is not None:
        described["requestBody"] = _body(operation, schemas)
    described["responses"] = dict(_responses(operation, schemas))
    return described


def _parameters(operation: DocumentedOperation, schemas: Schemas) -> Iterator[Document]:
    request = operation.example.good
    for name in operation.names:
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": name_schema(name),
            "example": _typed(request.names.get(name, NAMES[name]), name_schema(name)),
        }
    for name, schema in schemas.fields(operation.endpoint.query):
        option: Document = {"name": name, "in": "query", "schema": schema}
        if name in request.query:
            option["example"] = _typed(request.query[name], schema)
        yield option
    if operation.endpoint.takes_key:
        yield _KEY


def _typed(text: str, schema: Document) -> Any:
    """An option's value as its schema has it, not as it is written behind ``?``."""
    if schema.get("type") == "boolean":
        return text == "true"
    return int(text) if schema.get("type") == "integer" else text


def _body(operation: DocumentedOperation, schemas: Schemas) -> Document:
    endpoint = operation.endpoint
    example = request_body(endpoint, operation.example.good)
    schema = schemas.of(endpoint.body)
    return {"required": True, "content": {JSON: {"schema": schema, "example": example}}}


def _responses(operation: DocumentedOperation, schemas: Schemas) -> Iterator[tuple[str, Document]]:
    endpoint = operation.endpoint
    done: Document = {"description": "Done."}
    if endpoint.answer is not None:
        media: Document = {"schema": schemas.of(endpoint.answer)}
        if operation.good["body"] is not None:
            media["example"] = operation.good["body"]
        done = {"description": endpoint.summary + ".", "content": {JSON: media}}
    elif endpoint.message is not None:
        done = {"description": "The connection is a WebSocket now: the AsyncAPI has its messages."}
    elif endpoint.event is not None:
        # OpenAPI 3.1 has no words for events: each has an id, and data that the AsyncAPI describes.
        events = {"schema": {"type": "string"}, "example": operation.good["body"]}
        done = {"description": endpoint.summary + ".", "content": {EVENTS: events}}
    yield str(endpoint.status), done
    for status, codes in operation.problems.items():
        if status in SHARED:
            yield str(status), {"$ref": f"#/components/responses/{_response_name(status)}"}
        else:
            yield str(status), _refusal(operation, status, codes, schemas)


def _refusal(
    operation: DocumentedOperation, status: int, codes: Sequence[str], schemas: Schemas
) -> Document:
    media: Document = {"schema": schemas.of(Problem)}
    if status == operation.refused["status"] and status not in SHARED:
        media["example"] = operation.refused["body"]
    words = ", ".join(f"`{code}`" for code in codes)
    return {"description": f"{HTTPStatus(status).phrase}: {words}.", "content": {PROBLEM: media}}


def _response_name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")


def _shared_responses(described: Sequence[DocumentedOperation], schemas: Schemas) -> Document:
    found = {}
    for operation in described:
        for status in SHARED & operation.problems.keys():
            codes = operation.problems[status]
            found[_response_name(status)] = _refusal(operation, status, codes, schemas)
    return dict(sorted(found.items()))
