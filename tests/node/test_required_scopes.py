"""What each operation needs: none is without a rule, and none passes without a scope."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.contract.counters import FREE_SLOTS
from headrace.contract.operations import OPERATIONS, Operation
from headrace.contract.schedules import SCHEDULES_CHANGED
from headrace.contract.tokens import TOKENS_CHANGED
from headrace.model.locks import wake_word
from headrace.model.queues.settings import PRESENCE_WORD, capacity_word
from headrace.model.scopes import AdminNeed, Need, Scopes, parse_scopes
from headrace.node.required_scopes import RULES, hint_needs, needs_of
from operation_samples import arguments_of

ANY_OPERATION = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))


def both(operation: Operation) -> list[msgspec.Struct]:
    return [arguments_of(operation, is_full=is_full) for is_full in (False, True)]


def words(operation: str, **arguments: Any) -> list[str]:
    """What an operation needs, as scopes."""
    given = msgspec.convert(arguments, OPERATIONS[operation].arguments)
    return [str(need) for need in needs_of(operation, given)]


def test_every_operation_has_a_rule() -> None:
    assert set(RULES) == set(OPERATIONS)


def test_an_operation_without_a_rule_needs_admin() -> None:
    assert needs_of("queues.invented", None) == [AdminNeed()]


@ANY_OPERATION
def test_no_operation_passes_without_a_scope(operation: Operation) -> None:
    """Nor with scopes for things of other names."""
    other = [
        f"{verb}:{noun}/other"
        for verb, nouns in {
            "read": ("queue", "topic", "proc", "pipeline", "sink", "limit"),
            "push": ("queue",),
            "commit": ("topic",),
            "work": ("queue", "proc", "sink"),
            "manage": ("queue", "topic", "proc", "pipeline", "sink", "limit"),
        }.items()
        for noun in nouns
    ]
    for arguments in both(operation):
        needs = needs_of(operation.name, arguments)
        assert needs
        assert Scopes(()).missing(needs) == needs[0]
        if not all(isinstance(need, Need) and need.reach == "some" for need in needs):
            assert parse_scopes(other).missing(needs) is not None


@ANY_OPERATION
def test_exactly_what_is_needed_suffices(operation: Operation) -> None:
    """The error of a refusal names scopes that can be given to a token."""
    for arguments in both(operation):
        needs = needs_of(operation.name, arguments)
        granted = [str(need) for need in needs]
        assert parse_scopes(granted).missing(needs) is None
        for left_out in granted if len(granted) > 1 else ():
            rest = [text for text in granted if text != left_out]
            assert str(parse_scopes(rest).missing(needs)) == left_out


@ANY_OPERATION
def test_reading_does_not_allow_writing(operation: Operation) -> None:
    for arguments in both(operation):
        missing = parse_scopes(["read:*/*"]).missing(needs_of(operation.name, arguments))
        assert (missing is None) <= (not operation.writes)


@pytest.mark.parametrize("name", ["topics.commit", "queues.push", "queues.settle"])
def test_admin_may_do_everything(name: str) -> None:
    needs = needs_of(name, arguments_of(OPERATIONS[name], is_full=True))
    assert parse_scopes(["admin"]).missing(needs) is None


COMMIT = {"parts": [{"topic": "t", "count": 1, "body": "{}"}]}
PUSH = {"queue": "q2", "documents": []}


def test_writes_inside_of_other_operations_need_their_own_scopes() -> None:
    outcome = {"item": 1, "token": "x", "kind": "complete", "commits": [COMMIT], "pushes": [PUSH]}
    assert words("queues.settle", queue="q", outcomes=[outcome, outcome]) == [
        "work:queue/q",
        "commit:topic/t",
        "push:queue/q2",
    ]
    proc = {"proc": "p", "token": "x"}
    assert words("procs.ack_commit", **proc, call=COMMIT) == ["work:proc/p", "commit:topic/t"]
    assert words("procs.ack_part", **proc, last_id="1-1", call=COMMIT) == [
        "work:proc/p",
        "commit:topic/t",
    ]
    assert words("procs.ack_push", **proc, calls=[PUSH]) == ["work:proc/p", "push:queue/q2"]


def test_every_call_of_a_batch_is_checked() -> None:
    assert words("queues.push", calls=[PUSH, {**PUSH, "queue": "q3"}]) == [
        "push:queue/q2",
        "push:queue/q3",
    ]
    other = {"parts": [COMMIT["parts"][0], {"topic": "u", "count": 1, "body": "{}"}]}
    assert words("topics.commit", calls=[COMMIT, other]) == ["commit:topic/t", "commit:topic/u"]


def test_settings_by_which_a_queue_writes_elsewhere() -> None:
    """Else a manager of one queue could write anywhere."""
    changes = {"keep_superseded": "old", "dead_to": ["dead"]}
    expected = ["manage:queue/q", "commit:topic/old", "push:queue/dead"]
    assert words("queues.update", name="q", changes=changes) == expected
    assert words("queues.create", name="q", changes=changes, must_be_new=False) == expected
    assert words("queues.set_defaults", changes=changes) == ["manage:queue/*", *expected[1:]]
    for odd in ({"keep_superseded": 7}, {"dead_to": "dead"}, {"dead_to": [7]}):
        assert words("queues.update", name="q", changes=odd)[1:] == ["admin"]
    assert words("queues.add_dead_queue", name="q", to="dead") == [
        "manage:queue/q",
        "push:queue/dead",
    ]
    assert words("queues.redrive", queue="q", filter={}, to="other", limit=1) == [
        "manage:queue/q",
        "push:queue/other",
    ]


def test_a_limit_needs_a_scope_for_the_queue_that_it_holds_back() -> None:
    """Otherwise a token for one limit could stop a queue of others."""
    rule = {"id": "r", "key_values": "{}", "limit": 1}
    assert words("limits.create", rules=[{**rule, "queue": "q"}]) == [
        "manage:limit/r",
        "manage:queue/q",
    ]
    assert words("limits.create", rules=[rule]) == ["manage:limit/r", "manage:queue/*"]


def test_a_worker_needs_work_only() -> None:
    """Claiming creates the queue; a manager may create it, too."""
    create = {"name": "q", "changes": {}, "must_be_new": False}
    arguments = msgspec.convert(create, OPERATIONS["queues.create"].arguments)
    needs = needs_of("queues.create", arguments)
    for scope, suffices in (("work", True), ("manage", True), ("push", False)):
        assert (parse_scopes([f"{scope}:queue/q"]).missing(needs) is None) == suffices
    assert words("queues.create", **{**create, "must_be_new": True}) == ["manage:queue/q"]


def test_a_pipeline_may_not_adopt_the_procs_of_others() -> None:
    specs = [{"name": name, "topic": "t", "offset": ">"} for name in ("p", "p__t", "billing")]
    definition = {"processor": "m:f", "targets": ["out"]}
    assert words("pipelines.define", name="p", specs=specs, definition=definition, changes={}) == [
        "manage:pipeline/p",
        "read:topic/t",
        "manage:proc/billing",
        "commit:topic/out",
    ]


def test_a_sink_writes_to_its_targets() -> None:
    part = {"topic": "queue/q", "count": 1, "body": "{}"}
    assert words("sinks.stage", token="x", parts=[part, COMMIT["parts"][0]]) == [
        "push:queue/q",
        "commit:topic/t",
    ]
    counts = [{"target": "t", "rows": 1, "records": 1}]
    publication = {
        "stages": [{"token": "x", "counts": counts}],
        "fence": {"sink": "s", "query": "u", "batch": 1},
    }
    assert words("sinks.publish", publication=publication) == ["work:sink/s", "commit:topic/t"]
    assert words("sinks.ack_publish", proc="p", token="x", publication=publication) == [
        "work:proc/p",
        "work:sink/s",
        "commit:topic/t",
    ]


def test_a_schedule_needs_what_its_action_needs() -> None:
    """Otherwise a token for schedules could do everything, a minute later."""
    timing = {"type": "every", "ms": 1000}
    for action, need in (
        ({"type": "push", "queue": "q", "document": {"payload": "1"}}, "push:queue/q"),
        ({"type": "commit", "topic": "t", "body": "1"}, "commit:topic/t"),
        ({"type": "pause", "queue": "q"}, "manage:queue/q"),
        ({"type": "resume", "queue": "q"}, "manage:queue/q"),
    ):
        definition = {"timing": timing, "action": action}
        assert words("schedules.add", name="s", definition=definition, replace=True) == [
            "manage:schedule/s",
            need,
        ]
    assert words("schedules.fire", limit=1) == ["work:schedule/*"]
    assert words("schedules.trigger", name="s") == ["work:schedule/s"]


@pytest.mark.parametrize(
    ("word", "needed"),
    [
        ("orders", "read:topic/orders"),
        ("queue/mail", "read:queue/mail"),
        (capacity_word("mail"), "read:queue/mail"),
        (FREE_SLOTS, "work:counter/*"),
        (PRESENCE_WORD, "read:queue/*"),
        (wake_word("site=shop", "session"), "work:lock/*"),
        (TOKENS_CHANGED, "admin"),
        (SCHEDULES_CHANGED, "read:schedule/*"),
        ("other/x", "admin"),
    ],
)
def test_what_a_notification_needs(word: str, needed: str) -> None:
    assert [str(need) for need in hint_needs(word)] == [needed]


def test_every_verb_on_a_queue_allows_its_notifications() -> None:
    """A push that waits for capacity, and a claim that waits for items."""
    for verb in ("push", "work", "manage", "read"):
        assert parse_scopes([f"{verb}:queue/q"]).missing(hint_needs("queue/q")) is None
    assert parse_scopes(["commit:topic/t"]).missing(hint_needs("t")) is None
