"""The API Blueprint: Dredd, which nobody here wrote, sends all its examples to a node."""

from __future__ import annotations

import json
import re
from pathlib import Path

from document_fixtures import ServedExamples
from example_walk import BY_NAME

import javascript
from headrace.node.documents.blueprint import REFUSED, blueprint
from headrace.node.documents.example import request_body, request_path
from headrace.node.documents.examples import EXAMPLES
from headrace.node.resources.serve import BASE

DREDD = javascript.PACKAGES / "dredd/bin/dredd"
HOOKS = Path(__file__).with_name("dredd_hooks.js")
# Two requests to one path are two sections, in an order in which they work.
EXPECTED_WARNING = "is already defined"


def test_each_operation_has_a_good_and_a_refused_example() -> None:
    titles = re.findall(r"^## (.+) \[", blueprint(), re.MULTILINE)
    assert sorted(titles) == sorted([*BY_NAME, *(name + REFUSED for name in BY_NAME)])


def test_dredd_gets_the_answers_that_the_blueprint_shows(
    served_examples: ServedExamples, tmp_path: Path
) -> None:
    document = tmp_path / "headrace.apib"
    document.write_bytes(served_examples.get("/blueprint.apib", token=served_examples.token))
    given = tmp_path / "examples.json"
    given.write_text(json.dumps({**served_examples._asdict(), "before": _before()}))
    done = javascript.run(
        *(DREDD, document, served_examples.url),
        *("--header", f"Authorization: Bearer {served_examples.token}"),
        *("--hookfiles", HOOKS, "--no-color"),
        HEADRACE_EXAMPLES=str(given),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # A stream has no end that Dredd could wait for.
    streams = sum(endpoint.event is not None for endpoint in BY_NAME.values())
    count = 2 * len(BY_NAME) - streams
    summary = f"complete: {count} passing, 0 failing, 0 errors, {streams} skipped"
    assert summary in done.stdout, done.stdout
    warnings = [line for line in done.stderr.splitlines() if "parser warning" in line]
    assert [line for line in warnings if EXPECTED_WARNING not in line] == []


def _before() -> dict[str, list[dict[str, object]]]:
    """The requests that the hooks send before an example."""
    return {
        example.operation: [
            {
                "method": BY_NAME[name].method,
                "path": BASE + request_path(BY_NAME[name], request),
                "body": request_body(BY_NAME[name], request),
            }
            for name, request in example.before
        ]
        for example in EXAMPLES
    }
