"""When claims on PostgreSQL pass over what was claimed before."""

import time

import pytest

import headrace
from headrace import Query
from headrace.drivers.postgres.floors import FLOOR_SECONDS, LONG_SECONDS, SLOW_CLAIMS, Floor

QUICK, SLOW = LONG_SECONDS / 10, LONG_SECONDS * 2


class Claims:
    """Claims of 100 items that take as long as one says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.floor = Floor(lambda: self.now)
        self.position = 0

    def claim(self, seconds: float, times: int = 1) -> None:
        for _ in range(times):
            self.position += 100
            self.now += seconds
            self.floor.rise(0, self.position, seconds, 100)


@pytest.fixture
def claims() -> Claims:
    return Claims()


def test_quick_claims_start_from_the_bottom(claims: Claims) -> None:
    claims.claim(QUICK, 100)
    assert not claims.floor.is_wanted


@pytest.mark.parametrize("before", [0, 10], ids=["slow from the first", "quick before"])
def test_slow_claims_try_from_the_floor_and_go_on_if_that_helps(
    claims: Claims, before: int
) -> None:
    """Whether or not this client has ever seen a quick one."""
    claims.claim(QUICK, before)
    claims.claim(SLOW, SLOW_CLAIMS)
    assert claims.floor.is_wanted
    assert claims.floor.position == claims.position
    claims.claim(QUICK)
    assert claims.floor.is_wanted
    claims.claim(QUICK, 3)
    assert claims.floor.is_wanted
    claims.now += FLOOR_SECONDS
    assert not claims.floor.is_wanted


def test_a_slow_claim_now_and_then_means_nothing(claims: Claims) -> None:
    for _ in range(10):
        claims.claim(QUICK)
        claims.claim(SLOW, SLOW_CLAIMS - 1)
        assert not claims.floor.is_wanted


def test_a_trial_that_does_not_help_ends_it_for_a_while(claims: Claims) -> None:
    """Slow for another reason: the server is busy, say."""
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(SLOW)
    assert not claims.floor.is_wanted
    claims.claim(SLOW, SLOW_CLAIMS)
    assert not claims.floor.is_wanted
    claims.now += FLOOR_SECONDS
    claims.claim(SLOW)
    assert claims.floor.is_wanted


def test_the_next_look_from_the_bottom_needs_one_claim(claims: Claims) -> None:
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(QUICK)
    claims.now += FLOOR_SECONDS
    claims.claim(SLOW)
    assert claims.floor.is_wanted


def test_what_comes_to_stand_in_line_is_looked_for(claims: Claims) -> None:
    """A reset: at once from the bottom, and by a trial to the floor again."""
    claims.claim(SLOW, SLOW_CLAIMS)
    claims.claim(QUICK)
    claims.floor.reset()
    assert not claims.floor.is_wanted
    claims.claim(SLOW)
    assert claims.floor.is_wanted


@pytest.mark.parametrize("discipline", ["fifo", "priority", "lifo"])
@pytest.mark.parametrize("select", [None, Query()], ids=["line", "turns"])
def test_what_is_passed_over_is_handed_out_in_the_end(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, select: Query | None, discipline: str
) -> None:
    """From the floor, items that came back to their old place wait while there are others behind
    them; a claim that does not find enough looks from the bottom. The newest first has no floor."""
    monkeypatch.setattr(Floor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queue("q", discipline=discipline)
        channels = [None] if select is None else [{"os": "linux"}, {"os": "mac"}]
        for number in range(50):
            queue.push(number, channel=channels[number % len(channels)])
        # By the first one the client learns that there are channels.
        queue.complete(queue.claim(10, select=select, quantum=5))
        left = {item.payload for item in queue.items()}
        first = queue.claim(10, select=select, quantum=5)
        assert len(first) == 10
        back = {item.payload for item in first}
        queue.release(first)
        second = queue.claim(10, select=select, quantum=5)
        is_passed_over = back.isdisjoint(item.payload for item in second)
        assert is_passed_over is (discipline != "lifo")
        third = queue.claim(40, select=select)
        assert sorted(item.payload for item in second + third) == sorted(left)
        assert queue.complete(second + third)
        assert hr.queue("q").channels() == []


def test_strict_channels_have_no_floor(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came back goes before what stands behind it."""
    monkeypatch.setattr(Floor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queue("q", serial=True)
        for number in range(4):
            queue.push(number, channel={"os": "linux"})
        queue.complete(queue.claim(1, select=Query()))
        for _ in range(3):
            [item] = queue.claim(1, select=Query())
            assert item.payload == 1
            queue.release([item])


@pytest.mark.parametrize("select", [None, Query()], ids=["line", "turns"])
def test_a_higher_priority_is_not_passed_over(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, select: Query | None
) -> None:
    """It goes before the place that claims have come to."""
    monkeypatch.setattr(Floor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queue("q", discipline="priority")
        channel = None if select is None else {"os": "linux"}
        for number in range(9):
            queue.push(number, channel=channel)
        for _ in range(3):
            queue.complete(queue.claim(1, select=select))
        queue.push("urgent", channel=channel, priority=1)
        assert [item.payload for item in queue.claim(2, select=select)] == ["urgent", 3]


def test_each_channel_is_looked_at_from_the_bottom_now_and_then(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the others keep the claims busy."""
    monkeypatch.setattr(Floor, "is_wanted", True)
    with headrace.connect(postgres_url) as hr:
        queue = hr.queue("q")
        for number in range(1500):
            queue.push(number, channel={"os": "linux"})
        queue.complete(queue.claim(1, select=Query()))
        queue.complete(queue.claim(1, select=Query()))
        [item] = queue.claim(1, select=Query())
        queue.release([item])
        begun = time.monotonic()
        while (taken := queue.claim(1, select=Query())[0]).payload != item.payload:
            queue.complete([taken])
            assert time.monotonic() - begun < 10
