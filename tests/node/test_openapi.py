"""The OpenAPI document: valid, true of the answers of a node, and true when it is called at random."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from document_fixtures import ServedExamples
from example_walk import BY_NAME, Step, Walk, memory_node, shape
from openapi_spec_validator import validate

from headrace.node.documents.examples import EXAMPLES
from headrace.node.documents.openapi import EVENTS, openapi
from headrace.node.documents.operations import operations
from headrace.node.resources import long_polls
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint

DOCUMENT = json.loads(json.dumps(openapi()))
SEED = 7
STREAMS = [endpoint.name for endpoint in ENDPOINTS if endpoint.event is not None]


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    """What a node says to all examples."""
    with memory_node() as send:
        return list(Walk(send).steps())


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random requests ask for waits of a minute as well: those are refused."""
    monkeypatch.setattr(long_polls, "MAX_WAIT_SECONDS", 0.1)


def test_openapi_is_valid() -> None:
    validate(DOCUMENT)


def test_every_endpoint_has_one_example() -> None:
    assert sorted(example.operation for example in EXAMPLES) == sorted(BY_NAME)
    assert len(ENDPOINTS) == len(BY_NAME)


def test_every_answer_has_a_schema() -> None:
    """Only what answers 204 has nothing to describe."""
    assert [one.name for one in ENDPOINTS if not _is_described(one)] == []


def test_examples_work_and_refusals_are_refused(steps: list[Step]) -> None:
    assert len(steps) == len(ENDPOINTS)
    for step in steps:
        assert step.good.status == step.endpoint.status, step
        assert 400 <= step.refused.status < 500, step
        assert step.refused.content_type == "application/problem+json", step


def test_answers_fit_their_schemas(steps: list[Step]) -> None:
    for step in steps:
        described = _described(step)
        for reply in (step.good, step.refused):
            if reply.content_type == EVENTS:
                continue
            response = described["responses"][str(reply.status)]
            if "$ref" in response:
                response = DOCUMENT["components"]["responses"][response["$ref"].split("/")[-1]]
            if reply.body is None:
                assert "content" not in response, step
                continue
            _check(reply.body, response["content"][reply.content_type]["schema"])


def test_bodies_of_examples_fit_their_schemas() -> None:
    for operation in operations():
        described = DOCUMENT["paths"][operation.endpoint.path][operation.endpoint.method.lower()]
        if "requestBody" in described:
            [media] = described["requestBody"]["content"].values()
            _check(media["example"], media["schema"])


def test_kept_answers_have_the_form_of_real_ones(steps: list[Step]) -> None:
    """`scripts/record-examples` keeps new ones."""
    for step, operation in zip(steps, operations(), strict=True):
        assert shape(step.good._asdict()) == shape(operation.good), step
        assert shape(step.refused._asdict()) == shape(operation.refused), step
        assert step.refused.body["code"] in operation.problems[step.refused.status], step


def test_refusals_name_an_error_that_the_document_lists(steps: list[Step]) -> None:
    for step in steps:
        assert str(step.refused.status) in _described(step)["responses"], step


def test_the_served_document_is_this_one(served_examples: ServedExamples) -> None:
    served = served_examples.get("/openapi.json", token=served_examples.token)
    assert json.loads(served) == DOCUMENT


def test_schemathesis_finds_nothing(
    served_examples: ServedExamples, tmp_path: Path, short_waits: None
) -> None:
    _call_at_random(served_examples, tmp_path, examples=5)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_schemathesis_finds_nothing_with_more_examples(
    served_examples: ServedExamples, tmp_path: Path, short_waits: None
) -> None:
    _call_at_random(served_examples, tmp_path, examples=200)


def _call_at_random(node: ServedExamples, folder: Path, *, examples: int) -> None:
    """Examples, edges of all schemas, and random values; the same ones in each run."""
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run"),
        f"{node.url}/api/v1/openapi.json",
        *("--header", f"Authorization: Bearer {node.token}"),
        *("--phases", "examples,coverage,fuzzing"),
        *("--max-examples", str(examples), "--seed", str(SEED), "--generation-deterministic"),
        # A schema cannot say all that a node refuses: durations in words, queries, cursors.
        *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
        *("--request-timeout", "30", "--no-color"),
        # A stream has no end that it could wait for.
        *(part for name in STREAMS for part in ("--exclude-operation-id", name)),
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Tested: {len(ENDPOINTS) - len(STREAMS)}" in done.stdout


def _is_described(endpoint: Endpoint) -> bool:
    return endpoint.status == 204 or (endpoint.answer or endpoint.event) is not None


def _described(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][step.endpoint.path][step.endpoint.method.lower()]
    return found


def _check(value: Any, schema: dict[str, Any]) -> None:
    """By the schemas of the document, which refer to each other."""
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)
