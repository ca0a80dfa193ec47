"""Several calls in one commit, which group commit relies on."""

from typing import Any

import pytest

import headrace
from headrace.contract.values import CommitCall, CommitPart, Committed, KeyConflict, SeqSpan
from headrace.testing.clocks import FakeClock


def call(topic: str, n: int, key: str | None = None) -> CommitCall:
    return CommitCall(parts=(CommitPart(topic, 1, f'{{"n":{n}}}'),), key=key, digest=f"{topic}{n}")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hr(store_url: str, clock: FakeClock) -> Any:
    with headrace.connect(store_url, clock=clock) as client:
        yield client


def spans(outcomes: list[Any]) -> list[tuple[SeqSpan, ...]]:
    return [outcome.spans for outcome in outcomes]


def test_calls_are_numbered_in_order(hr: Any, clock: FakeClock) -> None:
    """One result per call, one timestamp for all."""
    outcomes = hr._store.run(hr._store.topics.commit([call("a", 1), call("b", 2), call("a", 3)]))
    assert spans(outcomes) == [
        (SeqSpan("a", 0, 1),),
        (SeqSpan("b", 0, 1),),
        (SeqSpan("a", 1, 1),),
    ]
    assert {outcome.ts for outcome in outcomes} == {clock.now}


def test_a_key_twice_in_one_flush_counts_once(hr: Any) -> None:
    """At the place of its first call. Different content is a conflict. Other calls continue."""
    outcomes = hr._store.run(
        hr._store.topics.commit(
            [call("a", 1, "k"), call("a", 2), call("a", 1, "k"), call("a", 3, "k")]
        )
    )
    assert outcomes[0] == outcomes[2]
    assert spans(outcomes[:2]) == [(SeqSpan("a", 0, 1),), (SeqSpan("a", 1, 1),)]
    assert outcomes[3] == KeyConflict("k")
    assert [record.body["n"] for record in hr.range("a")] == [1, 2]


def test_a_conflict_does_not_affect_other_calls(hr: Any) -> None:
    hr.commit("a", {"n": 0}, key="k")
    outcomes = hr._store.run(
        hr._store.topics.commit([call("a", 1), call("a", 2, "k"), call("b", 3)])
    )
    assert outcomes[1] == KeyConflict("k")
    assert spans([outcomes[0], outcomes[2]]) == [(SeqSpan("a", 1, 1),), (SeqSpan("b", 0, 1),)]


def test_a_call_that_writes_nothing_does_not_date_the_others(hr: Any, clock: FakeClock) -> None:
    """The time of a topic counts only if the flush writes to it."""
    clock.advance(50)
    hr.commit("ahead", {})
    clock.advance(-50)
    outcomes = hr._store.run(hr._store.topics.commit([call("x", 1, "k"), call("ahead", 1, "k")]))
    assert outcomes == [Committed(clock.now, (SeqSpan("x", 0, 1),)), KeyConflict("k")]


def test_an_empty_call_beside_others(hr: Any) -> None:
    outcomes = hr._store.run(hr._store.topics.commit([CommitCall(parts=()), call("a", 1)]))
    assert spans(outcomes) == [(), (SeqSpan("a", 0, 1),)]
