"""The API as an API Blueprint: for people, and for Dredd, which sends each of its examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from headrace.contract.wire import JSON
from headrace.node.documents.example import NAMES, ExampleRequest, refused_request, request_body
from headrace.node.documents.openapi import SUMMARY
from headrace.node.documents.operations import DocumentedOperation, operations, tag_descriptions
from headrace.node.resources.serve import BASE

REFUSED = " refused"
"""Ends the name of a section whose request is refused."""

_HEAD = f"""FORMAT: 1A

# Headrace

{SUMMARY}

The examples work in their order on a new node in memory that has a pipeline `{NAMES["pipeline"]}`
and a sink `{NAMES["sink"]}`. In a body `…` stands for the token or the session that an earlier
answer gave. Every request needs an access token: `Authorization: Bearer hrt_…`.
"""


def blueprint(described: Sequence[DocumentedOperation] | None = None) -> str:
    """The API Blueprint, in format 1A."""
    described = operations() if described is None else described
    about = tag_descriptions(described)
    parts = [_HEAD]
    # What removes things comes last, so a tag may be there twice.
    for tag, group in groupby(described, key=lambda operation: operation.tag):
        parts.append(f"\n# Group {tag.capitalize()}\n\n{about[tag]}\n")
        for operation in group:
            parts += _good(operation)
            parts += _refused(operation)
    return "".join(parts)


def _good(operation: DocumentedOperation) -> Iterator[str]:
    endpoint, example = operation.endpoint, operation.example
    yield f"\n## {operation.name} [{endpoint.method} {_template(operation, example.good)}]\n\n"
    yield f"{endpoint.summary}. {operation.description}".strip() + "\n"
    for name, request in example.before:
        yield f"\nIn this example after `{name}` with `{json.dumps(request.body)}`.\n"
    yield from _exchange(operation, example.good, operation.good)


def _refused(operation: DocumentedOperation) -> Iterator[str]:
    endpoint = operation.endpoint
    request = refused_request(endpoint, operation.example)
    template = _template(operation, request)
    yield f"\n## {operation.name}{REFUSED} [{endpoint.method} {template}]\n"
    yield from _exchange(operation, request, operation.refused)


def _template(operation: DocumentedOperation, request: ExampleRequest) -> str:
    options = f"{{?{','.join(request.query)}}}" if request.query else ""
    return f"{BASE}{operation.endpoint.path}{options}"


def _exchange(
    operation: DocumentedOperation, request: ExampleRequest, answer: Mapping[str, Any]
) -> Iterator[str]:
    values = {name: request.names.get(name, NAMES[name]) for name in operation.names}
    if values or request.query:
        yield "\n+ Parameters\n"
        for name, value in {**values, **request.query}.items():
            yield f"    + {name}: `{value}` (string, required)\n"
    body = request_body(operation.endpoint, request)
    if body is not None:
        yield f"\n+ Request ({JSON})"
        yield _indented(body)
    status, kind = answer["status"], answer["content_type"]
    has_body = answer["body"] is not None
    yield f"\n+ Response {status} ({kind})" if has_body else f"\n+ Response {status}\n"
    if has_body:
        yield _indented(answer["body"])


def _indented(value: Any) -> str:
    """A block of JSON, or of events: eight spaces make it the body of a section."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return "\n\n" + "".join(f"        {line}\n" for line in text.splitlines())
