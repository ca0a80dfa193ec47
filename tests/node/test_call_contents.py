"""A node refuses what no client of ours would send, before the store sees it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.contract.operations import OPERATIONS
from headrace.errors import InvalidInput
from headrace.node.call_contents import check_contents


def check(name: str, /, **arguments: Any) -> None:
    operation = OPERATIONS[name]
    check_contents(operation, msgspec.convert(arguments, operation.arguments))


def commit(count: int, body: str, *, topic: str = "t", headers: str | None = None) -> Any:
    return {"parts": [{"topic": topic, "count": count, "body": body, "headers": headers}]}


def push(**document: Any) -> Any:
    return {"queue": "q", "documents": [{"payload": "1", **document}]}


GOOD = [
    ("topics.commit", {"calls": [commit(1, '{"a": 1}'), commit(2, '1\n"x"', headers="null\n{}")]}),
    ("queues.push", {"calls": [push(), push(payload="AAE=", format=1, headers="{}")]}),
    ("queues.create", {"name": "git commits", "changes": {}, "must_be_new": True}),
    (
        "sinks.stage",
        {"token": "a", "parts": commit(1, '{"payload": "1"}', topic="queue/q")["parts"]},
    ),
    ("queues.redrive", {"queue": "q", "filter": {}, "to": None, "limit": 1}),
    ("topics.info", {"topic": "what/ever"}),
]


def schedule(name: str = "s", /, **definition: Any) -> Any:
    made = {
        "timing": {"type": "cron", "expression": "0 0 * * *", "zone": "UTC"},
        "action": {"type": "pause", "queue": "q"},
        **definition,
    }
    return {"name": name, "definition": made, "replace": False}


def scheduled_push(**document: Any) -> Any:
    return schedule(action={"type": "push", "queue": "q", "document": {"payload": "1", **document}})


GOOD_SCHEDULES = [
    schedule(),
    schedule(timing={"type": "every", "ms": 1000}, starts_at=5, ends_at=6, max_fires=1),
    schedule(timing={"type": "at", "at": 1000}, spread_ms=5),
    schedule(action={"type": "commit", "topic": "t", "body": "1", "headers": '{"a": "b"}'}),
    scheduled_push(),
]
BAD_SCHEDULES = [
    schedule("a/b"),
    schedule(timing={"type": "cron", "expression": "x", "zone": "UTC"}),
    schedule(timing={"type": "cron", "expression": "@daily", "zone": "UTC"}),
    schedule(timing={"type": "cron", "expression": "0 0 * * *", "zone": "../x"}),
    schedule(timing={"type": "every", "ms": 0}),
    schedule(timing={"type": "every", "ms": -5}),
    schedule(timing={"type": "at", "at": -5}),
    schedule(timing={"type": "at", "at": 2**60}),
    schedule(spread_ms=-1),
    schedule(starts_at=2**60),
    schedule(max_fires=0),
    schedule(action={"type": "pause", "queue": "a/b"}),
    schedule(action={"type": "commit", "topic": "a/b", "body": "1"}),
    schedule(action={"type": "commit", "topic": "t", "body": "{"}),
    schedule(action={"type": "commit", "topic": "t", "body": "1\n2"}),
    schedule(action={"type": "commit", "topic": "t", "body": "1", "headers": "null"}),
    scheduled_push(payload="{"),
    scheduled_push(subject=""),
]
BAD_COMMITS = [
    commit(1, ""),
    commit(1, "{"),
    commit(1, "1\n2"),
    commit(2, "1"),
    commit(2, "1 2"),
    commit(2, "1\n\n2"),
    commit(2, "1 2\n"),
    commit(2, "\n1 2"),
    commit(1, "1", headers="null\nnull"),
    commit(1, "1", headers="x"),
    commit(1, "1", headers="5"),
    commit(1, "1", headers='{"a": 1}'),
    commit(1, "[" * 5000),
    commit(1, "1", topic="a/b"),
    commit(1, "1", topic=""),
]
BAD_PUSHES = [
    push(payload=""),
    push(payload="nothing"),
    push(payload="?", format=1),
    push(headers="x"),
    push(overrides="x"),
    push(overrides="[1]"),
    push(overrides='{"lease": "abc"}'),
    push(overrides='{"lease": 1e300}'),
    push(overrides='{"max_attempts": 0}'),
    push(overrides='{"retry_position": "top"}'),
    push(headers="5"),
    push(payload="[" * 5000),
    push(subject=""),
    push(subject="a\x1eb"),
    push(subject="a" * 10_000),
    push(priority=10**20),
    push(due=2**63),
    push(delay=2**63),
    push(delay=-1),
    {**push(), "debounce_ms": 2**63},
    {**push(), "key_ttl_ms": -1},
    push(key_values="x"),
    {"queue": "a/b", "documents": []},
    {"queue": "a\nb", "documents": []},
]


@pytest.mark.parametrize(("name", "arguments"), GOOD, ids=lambda one: str(one)[:40])
def test_what_clients_send_passes(name: str, arguments: Any) -> None:
    check(name, **arguments)


@pytest.mark.parametrize("call", BAD_COMMITS, ids=str)
def test_commits_that_would_fail_their_readers(call: Any) -> None:
    """Whatever operation they come with."""
    outcome = {"item": 1, "token": "a", "kind": "complete", "commits": [call]}
    for name, arguments in (
        ("topics.commit", {"calls": [commit(1, "1"), call]}),
        ("procs.ack_commit", {"proc": "p", "token": "a", "call": call}),
        ("procs.ack_part", {"proc": "p", "token": "a", "last_id": "1-1", "call": call}),
        ("queues.settle", {"queue": "q", "outcomes": [outcome]}),
        ("sinks.stage", {"token": "a", "parts": call["parts"]}),
    ):
        with pytest.raises(InvalidInput):
            check(name, **arguments)


@pytest.mark.parametrize("call", BAD_PUSHES, ids=str)
def test_pushes_that_would_fail_their_workers(call: Any) -> None:
    outcome = {"item": 1, "token": "a", "kind": "complete", "pushes": [call]}
    for name, arguments in (
        ("queues.push", {"calls": [push(), call]}),
        ("procs.ack_push", {"proc": "p", "token": "a", "calls": [call]}),
        ("queues.settle", {"queue": "q", "outcomes": [outcome]}),
    ):
        with pytest.raises(InvalidInput):
            check(name, **arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("topics.commit", {"calls": [{**commit(1, "1"), "key_ttl_ms": 2**63}]}),
        ("queues.create", {"name": "", "changes": {}, "must_be_new": False}),
        ("queues.add_dead_queue", {"name": "q", "to": "a/b"}),
        ("queues.redrive", {"queue": "q", "filter": {}, "to": "*", "limit": 1}),
        (
            "queues.edit_item",
            {"queue": "q", "item": 1, "payload": ["x", 0], "priority": None, "due": None},
        ),
        ("procs.create", {"spec": {"name": "a b", "topic": "t", "offset": ">"}, "changes": {}}),
        ("procs.create", {"spec": {"name": "a", "topic": "..", "offset": ">"}, "changes": {}}),
        ("sinks.stage", {"token": "a", "parts": commit(1, "{}", topic="queue/q")["parts"]}),
        ("sinks.stage", {"token": "a", "parts": commit(1, "1", topic="queue/a/b")["parts"]}),
    ],
    ids=str,
)
def test_names_and_texts_of_other_operations(name: str, arguments: Any) -> None:
    with pytest.raises(InvalidInput):
        check(name, **arguments)


@pytest.mark.parametrize("call", GOOD_SCHEDULES, ids=str)
def test_schedules_that_fire_pass(call: Any) -> None:
    check("schedules.add", **call)


@pytest.mark.parametrize("call", BAD_SCHEDULES, ids=str)
def test_schedules_that_would_fail_whoever_fires_them(call: Any) -> None:
    with pytest.raises(InvalidInput):
        check("schedules.add", **call)
