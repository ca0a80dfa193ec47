"""How much one call may ask a node for."""

from typing import Any

import msgspec
import pytest

from headrace.contract.operations import OPERATIONS
from headrace.errors import InvalidOption
from headrace.node.call_sizes import MAX_ANSWER_BYTES, MAX_ITEMS, check_size

MANY = MAX_ITEMS + 1


def check(name: str, arguments: dict[str, Any]) -> None:
    operation = OPERATIONS[name]
    check_size(operation, msgspec.convert(arguments, operation.arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "option"),
    [
        ("topics.list", {"prefix": "", "after": "", "limit": MANY}, "limit"),
        ("queues.claim", {"request": {"queue": "q", "token": "t", "count": MANY}}, "count"),
        ("queues.items", {"queue": "q", "state": 0, "after": 0, "limit": MANY}, "limit"),
        ("limits.usage", {"rule": "r", "holders": MANY}, "holders"),
        (
            "queues.extend",
            {"queue": "q", "token": "t", "items": [1] * MANY, "lease_ms": 1},
            "items",
        ),
        (
            "procs.claim_any",
            {"procs": ["p"] * MANY, "token": "t", "count": 1, "max_bytes": 1},
            "procs",
        ),
        ("procs.claim", {"proc": "p", "token": "t", "count": 1, "max_bytes": 10**9}, "max_bytes"),
        ("topics.read", {"query": {"topic": "t", "limit": 1, "max_bytes": 10**9}}, "max_bytes"),
        (
            "queues.push",
            {"calls": [{"queue": "q", "documents": [{"payload": "1"}] * (MANY // 2)}] * 3},
            "documents",
        ),
    ],
)
def test_a_call_that_asks_for_too_much(name: str, arguments: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOption, match="make several calls") as caught:
        check(name, arguments)
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("topics.list", {"prefix": "", "after": "", "limit": MAX_ITEMS}),
        ("topics.read", {"query": {"topic": "t", "limit": 10**9, "max_bytes": MAX_ANSWER_BYTES}}),
        ("procs.claim_span", {"proc": "p", "token": "t", "count": 10**9}),
        ("limits.change", {"rule": "r", "override": None, "limit": 10**9}),
        ("counters.set", {"key_values": "{}", "count": 10**9}),
        ("queues.counts", {"queues": None, "computed": False}),
    ],
)
def test_numbers_that_make_no_answer_longer_are_free(name: str, arguments: dict[str, Any]) -> None:
    check(name, arguments)
