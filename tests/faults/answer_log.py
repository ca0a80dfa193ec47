"""Writes with the answers yes, no or unknown, and whether the answers were true."""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal

import headrace
from faults.queue_checks import ALL
from faults.queue_crash_cases import run
from headrace.errors import HeadraceError, OutcomeUnknown
from headrace.model.queues.items import State

Answer = Literal["yes", "no", "unknown"]


class AnswerLog:
    """The answer to each call of a storm, by the name that the call stored."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.errors: Counter[str] = Counter()
        self.longest = 0.0

    def call(self, name: str, act: Callable[[str], object]) -> None:
        begun = time.monotonic()
        try:
            act(name)
        except OutcomeUnknown as error:
            self.answers[name] = "unknown"
            self.errors[f"unknown: {error.__cause__}"] += 1
        except HeadraceError as error:
            self.answers[name] = "no"
            self.errors[f"{type(error).__name__}: {error}"] += 1
        else:
            self.answers[name] = "yes"
        self.longest = max(self.longest, time.monotonic() - begun)

    def check(self, stored: Counter[str]) -> None:
        assert [name for name, times in stored.items() if times > 1] == []
        lies = [(name, answer) for name, answer in self.answers.items() if answer != "unknown"]
        assert [name for name, answer in lies if (answer == "yes") != bool(stored[name])] == []


def names(hr: headrace.Headrace) -> Counter[str]:
    """How often each name is stored, in the queue or in topics."""
    found = Counter(
        json.loads(item.payload) for item in run(hr, "queues.items", "q", State.PENDING, 0, ALL)
    )
    [one, two] = [[record.body["name"] for record in hr.range(topic)] for topic in ("one", "two")]
    assert set(two) <= set(one), "half of a transaction was committed"
    return found + Counter(one)


def acts(hr: headrace.Headrace) -> list[Callable[[str], object]]:
    """Writes of all kinds that store one name each."""
    queue = hr.queue("q")

    def transact(name: str) -> None:
        with hr.transaction() as tx:
            tx.commit("one", {"name": name})
            tx.commit("two", {"name": name})

    def transact_push(name: str) -> None:
        with hr.transaction() as tx:
            tx.push("q", name)

    return [
        queue.push,
        queue.push,
        lambda name: queue.push(name, subject=name),
        lambda name: queue.push_many([name]),
        lambda name: hr.commit("one", {"name": name}),
        lambda name: hr.commit([("one", {"name": name}), ("two", {"name": name})]),
        lambda name: hr.commit("one", {"name": name}, key=name),
        transact,
        transact_push,
    ]
