"""The check that storms end with: it must notice what it is there for."""

import pytest

from headrace.contract.items import EndedItem
from headrace.model.items import ItemState, State
from headrace.testing.ledger import Entry
from headrace.testing.queue_ledger import check_items, content


def pushed(name: str, documents: int = 1, *, is_told: bool = True) -> Entry:
    outcome = {"ids": list(range(documents))} if is_told else None
    return Entry(name=name, intent={"documents": documents}, outcome=outcome)


def said(name: str, kind: str, *states: str, token: str = "t", item: str = "a") -> Entry:
    """What was said of the first document of a push; with no states nobody was told."""
    intent = {"token": token, "kind": kind, "items": [(item, 0)]}
    outcome = {"states": list(states)} if states else None
    return Entry(name=name, intent=intent, is_sent=True, outcome=outcome)


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


def dead(name: str, cause: str) -> EndedItem:
    return EndedItem(item=item(name, state=State.DEAD), ended_at=0, cause=cause)


def test_what_may_be_is_accepted():
    """Waiting, done, dead, in doubt, and what was never done."""
    check_items([pushed("a")], [item("a")])
    check_items([pushed("a", is_told=False)], [])
    check_items([pushed("a"), said("b", "complete", "completed")], [])
    check_items([pushed("a"), said("b", "complete")], [])
    check_items([pushed("a"), said("b", "complete")], [item("a")])
    check_items([pushed("a"), said("b", "complete", "lost")], [dead("a", "worker lost")])
    again = [said("b", "reject", "pending"), said("c", "kill", "dead", token="u")]
    check_items([pushed("a"), *again], [dead("a", "killed")])


@pytest.mark.parametrize(
    ("complaint", "entries", "found"),
    [
        ("is not whole", [pushed("a")], []),
        ("is not whole", [pushed("a", 2, is_told=False)], [item("a", 1)]),
        ("never pushed", [], [item("a")]),
        ("there twice", [pushed("a")], [item("a"), item("a")]),
        ("is lost", [pushed("a"), said("b", "complete", "lost")], []),
        ("is lost", [pushed("a"), said("b", "reject")], []),
        ("was completed", [pushed("a"), said("b", "complete", "completed")], [item("a")]),
        ("was dropped", [pushed("a"), said("b", "drop", "dropped")], [item("a")]),
        ("and yet", [pushed("a"), said("b", "kill", "dead")], [item("a")]),
        ("ended by itself", [pushed("a")], [dead("a", "killed")]),
        (
            "ended twice",
            [pushed("a"), said("b", "complete", "completed"), said("c", "kill", "dead", token="u")],
            [],
        ),
        (
            "twice with one token",
            [pushed("a"), said("b", "reject", "pending"), said("c", "reject", "pending")],
            [item("a")],
        ),
    ],
)
def test_what_may_not_be_is_noticed(complaint, entries, found):
    """Lost, doubled, halved, or settled by two."""
    with pytest.raises(AssertionError, match=complaint):
        check_items(entries, found)
