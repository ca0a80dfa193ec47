"""The AsyncAPI document, as the parser of that project reads it; and what all documents share."""

from __future__ import annotations

import json
import re
import urllib.error
from dataclasses import replace
from typing import Any

import pytest
from document_fixtures import ServedExamples
from example_walk import BY_NAME
from openapi_spec_validator import validate

import javascript
from headrace.node.documents.asyncapi import asyncapi
from headrace.node.documents.blueprint import REFUSED, blueprint
from headrace.node.documents.openapi import EVENTS, openapi
from headrace.node.documents.operations import DocumentedOperation, operations
from headrace.node.resources.claims import ClaimBody
from headrace.node.resources.pushes import PushBody
from headrace.node.resources.topics import RecordView

# The parser warns that version 3.0.0 is not the newest.
ALLOWED = {"asyncapi-latest-version"}


def parsed(document: dict[str, Any] | bytes) -> dict[str, Any]:
    """What the parser makes of a document."""
    text = document if isinstance(document, bytes) else json.dumps(document)
    done = javascript.run("parse_asyncapi.js", stdin=text)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_asyncapi_is_valid_and_has_every_operation(served_examples: ServedExamples) -> None:
    served = served_examples.get("/asyncapi.json", token=served_examples.token)
    assert json.loads(served) == json.loads(json.dumps(asyncapi()))
    found = parsed(served)
    assert [one for one in found["diagnostics"] if one["code"] not in ALLOWED] == []
    by_name = {one["name"]: one for one in found["operations"]}
    assert by_name.keys() == BY_NAME.keys()
    for name, endpoint in BY_NAME.items():
        assert by_name[name]["channels"] == [f"/api/v1{endpoint.path}"]


def test_the_parser_finds_what_is_wrong() -> None:
    document = asyncapi()
    document["operations"]["push_items"]["action"] = "push"
    assert any(one["severity"] == 0 for one in parsed(document)["diagnostics"])


def test_all_documents_name_the_same_operations() -> None:
    paths = openapi()["paths"].values()
    in_openapi = [entry["operationId"] for path in paths for entry in path.values()]
    titles = re.findall(r"^## (.+) \[", blueprint(), re.MULTILINE)
    in_blueprint = [title for title in titles if not title.endswith(REFUSED)]
    in_asyncapi = list(asyncapi()["operations"])
    assert sorted(in_openapi) == sorted(in_blueprint) == sorted(in_asyncapi) == sorted(BY_NAME)


def test_a_stream_is_described_as_one() -> None:
    """As an operation by which the node sends, and in OpenAPI as text without an end."""
    stream = _stream()
    [operation] = _operations(asyncapi([stream]))
    assert (operation["action"], operation["messages"]) == ("send", ["RecordView"])
    document = openapi([stream])
    validate(json.loads(json.dumps(document)))
    responses = document["paths"]["/topics/{topic}/records"]["get"]["responses"]
    assert list(responses["200"]["content"]) == [EVENTS]


def test_a_socket_is_described_as_one() -> None:
    """The node receives messages of several types, and answers with those of others."""
    stream = _stream()
    endpoint = replace(stream.endpoint, message=PushBody | ClaimBody, status=101)
    document = asyncapi([replace(stream, endpoint=endpoint)])
    [operation] = _operations(document)
    assert (operation["action"], operation["messages"]) == ("receive", ["PushBody", "ClaimBody"])
    [channel] = document["channels"].values()
    assert channel["servers"] == [{"$ref": "#/servers/socket"}]


def test_documents_need_a_token(served_examples: ServedExamples) -> None:
    for name in ("openapi.json", "asyncapi.json", "blueprint.apib"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            served_examples.get(f"/{name}", token=None)
        with refused.value as error:
            assert error.code == 401
        assert served_examples.get(f"/{name}", token=served_examples.token)


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations of a document without errors; it has few, so servers may be left over."""
    found = parsed(document)
    assert [one for one in found["diagnostics"] if one["severity"] == 0] == []
    operations: list[dict[str, Any]] = found["operations"]
    return operations


def _stream() -> DocumentedOperation:
    """An operation of the API, as if it answered with events."""
    [operation] = [one for one in operations() if one.name == "list_records"]
    endpoint = replace(operation.endpoint, answer=None, event=RecordView)
    return replace(operation, endpoint=endpoint)
