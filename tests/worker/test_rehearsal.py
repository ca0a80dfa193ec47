"""The fixtures for users' own tests."""

import pytest

from headrace.errors import InvalidOption
from headrace.testing.fixtures import Rehearsal
from headrace.worker import App, Item, Kill, Reschedule


@pytest.fixture
def hr(headrace_memory: Rehearsal) -> Rehearsal:
    return headrace_memory


def test_pushed_items_can_be_asserted(hr: Rehearsal) -> None:
    """By payload and subject, at least one or an exact number. The message lists the actual
    items."""
    hr.push("mail", {"to": "ann"}, subject="ann")
    hr.push("mail", {"to": "bob"}, delay="1h")
    assert [item.subject for item in hr.assert_pushed("mail")] == ["ann", None]
    hr.assert_pushed("mail", {"to": "ann"}, subject="ann", times=1)
    hr.assert_pushed("mail", {"to": "eve"}, times=0)
    with pytest.raises(AssertionError, match=r"1 matching items, not 2; it holds:\n .*'ann'"):
        hr.assert_pushed("mail", {"to": "ann"}, times=2)


def test_drain_handles_due_items_and_their_follow_ups(hr: Rehearsal) -> None:
    """As a worker would. Failures are retried when their time has come."""
    seen: list[str] = []

    def first(item: Item) -> None:
        seen.append(item.payload)
        hr.push("second", item.payload)

    def second(item: Item) -> None:
        if item.attempts == 1:
            raise ValueError("not yet")
        seen.append(f"{item.payload}!")

    hr.queues.create("second", reject_delay=60, exist_ok=True)
    hr.push("first", "a")
    hr.push("first", "later", delay=100)
    done = hr.drain({"first": first, "second": second})
    assert [handled.settled.state for handled in done] == ["completed", "planned"]
    hr.travel(minutes=1)
    hr.drain({"first": first, "second": second})
    assert seen == ["a", "a!"]
    hr.travel(40)
    assert len(hr.drain({"first": first, "second": second})) == 2


def test_drain_runs_the_tasks_of_an_app(hr: Rehearsal) -> None:
    """Async ones too."""
    app = App(client=hr)
    sent: list[str] = []

    @app.task(queue="mail")
    def send(to: str) -> None:
        sent.append(to)

    @app.task(queue="post")
    async def post(to: str) -> None:
        sent.append(to.upper())

    send.push("ann")
    post.push("bob")
    hr.drain(app)
    assert sorted(sent) == ["BOB", "ann"]


def test_drain_is_bounded(hr: Rehearsal) -> None:
    hr.push("q", 1)
    with pytest.raises(InvalidOption, match="for ever"):
        hr.drain({"q": lambda item: Reschedule(delay=0)}, limit=5)


def test_one_at_a_time(hr: Rehearsal) -> None:
    hr.push_many("q", [{"n": 1}, {"n": 2}])
    handled = hr.run_one("q", lambda item: Kill("no"))
    assert handled is not None
    assert handled.settled.state == "dead"
    assert len(hr.waiting("q")) == 1
    assert hr.run_one("q", lambda item: None) is not None
    assert hr.run_one("q", lambda item: None) is None


def test_a_crash_on_demand(hr: Rehearsal) -> None:
    """After a claim the item is in flight until its lease ends. Then it is claimable again."""
    hr.push("q", "x")
    seen: list[int] = []
    with hr.crash_after("claim"):
        hr.drain({"q": lambda item: seen.append(item.attempts)})
    assert seen == []
    assert hr.drain({"q": lambda item: seen.append(item.attempts)}) == []
    hr.travel(seconds=300)
    hr.drain({"q": lambda item: seen.append(item.attempts)})
    assert seen == [2]
    with hr.crash_before("push"):
        hr.push("q", "lost")
    hr.assert_pushed("q", times=0)
    with pytest.raises(AssertionError, match="no 'push'"), hr.crash_after("push"):
        pass
