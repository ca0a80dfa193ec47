"""The check that ends a storm must notice every kind of mistake."""

import pytest

from headrace.contract.items import FinishedItem
from headrace.model.queues.items import ItemState, State
from headrace.testing.audit_log import AuditEntry
from headrace.testing.queue_audit_log import check_items, content


def pushed(name: str, documents: int = 1, *, is_answered: bool = True) -> AuditEntry:
    outcome = {"ids": list(range(documents))} if is_answered else None
    return AuditEntry(name=name, intent={"documents": documents}, outcome=outcome)


def settlement(name: str, kind: str, *states: str, token: str = "t", item: str = "a") -> AuditEntry:
    """An outcome for the first document of a push. Without states, no answer arrived."""
    intent = {"token": token, "kind": kind, "items": [(item, 0)]}
    outcome = {"states": list(states)} if states else None
    return AuditEntry(name=name, intent=intent, is_sent=True, outcome=outcome)


def item(name: str, place: int = 0, state: State = State.PENDING) -> ItemState:
    return ItemState(
        id=1,
        queue="q",
        payload=content(name, place),
        state=state,
        next_execution=0,
        waiting_since=0,
        created_at=0,
    )


def dead(name: str, cause: str) -> FinishedItem:
    return FinishedItem(item=item(name, state=State.DEAD), ended_at=0, cause=cause)


def test_valid_histories_are_accepted():
    """Pending, done, dead, in doubt, and never applied."""
    check_items([pushed("a")], [item("a")])
    check_items([pushed("a", is_answered=False)], [])
    check_items([pushed("a"), settlement("b", "complete", "completed")], [])
    check_items([pushed("a"), settlement("b", "complete")], [])
    check_items([pushed("a"), settlement("b", "complete")], [item("a")])
    check_items([pushed("a"), settlement("b", "complete", "lost")], [dead("a", "worker lost")])
    again = [settlement("b", "reject", "pending"), settlement("c", "kill", "dead", token="u")]
    check_items([pushed("a"), *again], [dead("a", "killed")])


@pytest.mark.parametrize(
    ("complaint", "entries", "found"),
    [
        ("is not whole", [pushed("a")], []),
        ("is not whole", [pushed("a", 2, is_answered=False)], [item("a", 1)]),
        ("never pushed", [], [item("a")]),
        ("there twice", [pushed("a")], [item("a"), item("a")]),
        ("is lost", [pushed("a"), settlement("b", "complete", "lost")], []),
        ("is lost", [pushed("a"), settlement("b", "reject")], []),
        ("was completed", [pushed("a"), settlement("b", "complete", "completed")], [item("a")]),
        ("was dropped", [pushed("a"), settlement("b", "drop", "dropped")], [item("a")]),
        ("and yet", [pushed("a"), settlement("b", "kill", "dead")], [item("a")]),
        ("ended without a cause", [pushed("a")], [dead("a", "killed")]),
        (
            "ended twice",
            [
                pushed("a"),
                settlement("b", "complete", "completed"),
                settlement("c", "kill", "dead", token="u"),
            ],
            [],
        ),
        (
            "twice with one token",
            [
                pushed("a"),
                settlement("b", "reject", "pending"),
                settlement("c", "reject", "pending"),
            ],
            [item("a")],
        ),
    ],
)
def test_invalid_histories_are_noticed(complaint, entries, found):
    """Lost, duplicated, partial, or settled twice."""
    with pytest.raises(AssertionError, match=complaint):
        check_items(entries, found)
